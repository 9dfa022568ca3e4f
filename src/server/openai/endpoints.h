// One function for each endpoint; routes.cc says where they stand.
#pragma once

#include <memory>
#include <string>

#include "server/openai/context.h"

namespace eadem::server {

using SharedContext = std::shared_ptr<Context>;
using SharedReply = std::shared_ptr<Reply>;

void list_models(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void show_model(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void complete(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void chat(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void embed(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void tokenize(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void detokenize(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void tokenizer_info(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void fingerprint(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void verify(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);
void openapi(const SharedContext& context, const HttpRequest& request, const SharedReply& reply);

// The OpenAPI 3.1 description of all of the above for this server's model, as JSON.
std::string openapi_json(const Context& context);

}  // namespace eadem::server
