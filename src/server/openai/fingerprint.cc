// GET /v1/fingerprint: what the promise of equal bits rests on; ?format=cyclonedx gives the long form.
#include <nlohmann/json.hpp>

#include "server/openai/endpoints.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

constexpr char kPromise[] =
    "Two answers with the same fingerprint, prompt token ids, seed and sampling are equal, bit for bit. The "
    "fingerprint is the BLAKE3 digest of `covers`, written as RFC 8785 JSON.";
constexpr char kNoPromise[] =
    "None: this server was started with --mode free, whose sums are taken in whatever order suits the batch and the "
    "threads, so that bits vary. The fingerprint is the BLAKE3 digest of `covers`, written as RFC 8785 JSON.";

}  // namespace

void fingerprint(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  const Engine& engine = context->engine;
  const auto format = request.query.find("format");
  if (format != request.query.end() && format->second == "cyclonedx") {
    return reply->send(200, std::string(kCycloneDx) + "; version=1.7", engine.bill_of_materials());
  }
  if (format != request.query.end() && format->second != "json") {
    return refuse(*context, *reply, {400, "query field 'format' must be json or cyclonedx", "format", ""});
  }
  ordered_json receipts;  // null: the server signs none
  if (const auto& key = context->options.receipt_key; key != nullptr) {
    receipts = {{"key_id", key->key_id()}, {"public_key", key->verifying_key().pem()}};
  }
  const ordered_json object = {{"fingerprint", engine.identity()},
                               {"numerics", engine.info().numerics},
                               {"covers", ordered_json::parse(engine.identity_parts())},
                               {"promise", engine.info().mode == "free" ? kNoPromise : kPromise},
                               {"receipts", receipts},
                               // Proven without influence on the bits, and told so that a difference can be traced.
                               {"deployment_digest", engine.deployment()},
                               {"deployment", ordered_json::parse(engine.deployment_parts())}};
  reply->send(200, kJson, object.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace eadem::server
