// The routes of the OpenAI-compatible API.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "contract/keys.h"
#include "eadem/service.h"
#include "server/http/http.h"
#include "server/metrics.h"

namespace eadem::server {

// What the handlers stand on. Both pointers outlive the routes.
struct OpenaiOptions {
  Service* service = nullptr;
  Metrics* metrics = nullptr;
  std::vector<std::string> model_names;          // at least one; all are answered to, the first is what replies say
  std::chrono::milliseconds request_timeout{0};  // from arrival to the last token; 0: none
  std::string version;                           // of the program
  std::string tool_parser, reasoning_parser;     // --tool-call-parser, --reasoning-parser; empty: by the template
  // --chat-template: text of a template; empty: the model's. The engine renders, so it must be EngineOptions' as well.
  std::string chat_template;
  std::shared_ptr<const contract::SigningKey> receipt_key;  // --receipt-key; null: no receipts
  bool generation_config = true;  // false (--generation-config vllm): the model's own defaults are not used
};

// /v1/models, /v1/completions, /v1/chat/completions, /v1/embeddings, /v1/fingerprint, /v1/verify, /tokenize,
// /detokenize, /tokenizer_info, /openapi.json; docs/server.md says what they take and give. The rest (/health,
// /version, /metrics, /v1/stats, the page) is server.cc's.
std::vector<Route> openai_routes(const OpenaiOptions& options);

}  // namespace eadem::server
