// GET /v1/fingerprint: what the promise of equal bits rests on.
#include <nlohmann/json.hpp>

#include "server/openai/endpoints.h"

namespace eadem::server {

using nlohmann::ordered_json;

void fingerprint(const SharedContext& context, const HttpRequest&, const SharedReply& reply) {
  const Engine& engine = context->engine;
  ordered_json receipts;  // null: the server signs none
  if (const auto& key = context->options.receipt_key; key != nullptr) {
    receipts = {{"key_id", key->key_id()}, {"public_key", key->verifying_key().pem()}};
  }
  const ordered_json object = {
      {"fingerprint", engine.identity()},
      {"numerics", engine.info().numerics},
      {"covers", ordered_json::parse(engine.identity_parts())},
      {"promise",
       "Two answers with the same fingerprint, prompt token ids, seed and sampling are equal, bit for bit. The "
       "fingerprint is the BLAKE3 digest of `covers`, written as RFC 8785 JSON."},
      {"receipts", receipts},
      // Proven without influence on the bits, and told so that a difference can be traced.
      {"deployment",
       {{"version", context->options.version},
        {"isa", engine.info().isa},
        {"threads", engine.info().threads},
        {"max_model_len", engine.info().max_model_len},
        {"kv_blocks", engine.info().kv_blocks}}}};
  reply->send(200, kJson, object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace eadem::server
