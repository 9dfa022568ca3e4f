// POST /v1/completions and /v1/chat/completions.
#include <chrono>
#include <utility>

#include "server/openai/endpoints.h"
#include "server/openai/generation.h"

namespace eadem::server {
namespace {

void generate(const SharedContext& context, const HttpRequest& request, const SharedReply& reply, Result<Ask> ask,
              std::string_view prompt_field) {
  const auto arrival = Generation::Clock::now();
  if (!ask.ok()) return refuse(*context, *reply, bad_request(ask.error().message, prompt_field));
  if (!context->serves(ask.value().model)) return refuse(*context, *reply, model_not_found(ask.value().model));
  auto prepared = prepare(*context, std::move(ask).value(), arrival);
  if (!prepared.ok()) return refuse(*context, *reply, bad_request(prepared.error().message, prompt_field));
  std::make_shared<Generation>(context, std::move(prepared).value(), reply, request.request_id, arrival)->start();
}

}  // namespace

void complete(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  generate(context, request, reply, parse_completion(request.body, context->completion_defaults), "prompt");
}

void chat(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  generate(context, request, reply, parse_chat(request.body, context->chat_defaults), "messages");
}

}  // namespace eadem::server
