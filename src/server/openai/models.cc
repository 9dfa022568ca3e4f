// GET /v1/models and /v1/models/{name}.
#include <nlohmann/json.hpp>

#include "server/openai/endpoints.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

ordered_json describe(const Context& context, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", context.created},
          {"owned_by", "eadem"},
          {"root", context.model},
          {"parent", nullptr},
          {"max_model_len", context.engine.info().max_model_len}};
}

void send(const ordered_json& object, Reply& reply) {
  reply.send(200, kJson, object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace

void list_models(const SharedContext& context, const HttpRequest&, const SharedReply& reply) {
  ordered_json list = {{"object", "list"}, {"data", ordered_json::array()}};
  for (const std::string& name : context->options.model_names) list["data"].push_back(describe(*context, name));
  send(list, *reply);
}

void show_model(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  if (!context->serves(request.tail) || request.tail.empty()) return send_error(*reply, model_not_found(request.tail));
  send(describe(*context, request.tail), *reply);
}

}  // namespace eadem::server
