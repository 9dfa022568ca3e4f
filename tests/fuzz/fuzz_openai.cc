// Any bytes as the body of a completion (a first byte below 128) or of a chat: an error of one line that a reply can
// carry, or an ask within its limits.
#include <nlohmann/json.hpp>

#include "consume.h"
#include "server/openai/ask.h"
#include "server/openai/errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace eadem::server;
  if (size == 0) return 0;
  const bool chat = data[0] >= 128;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto ask = chat ? parse_chat(body, {}) : parse_completion(body, {});
  if (!ask.ok()) {
    eadem::fuzz::consume(ask.error());
    const ApiError error = bad_request(ask.error().message, chat ? "messages" : "prompt");
    EADEM_CHECK(nlohmann::json::accept(to_json(error)));
    return 0;
  }
  const Ask& parsed = ask.value();
  EADEM_CHECK(static_cast<int64_t>(parsed.prompts.size()) * parsed.sampling.n <= kMaxAnswers || parsed.chat);
  EADEM_CHECK(parsed.logprobs <= kMaxLogprobs && parsed.sampling.n <= kMaxAnswers);
  if (parsed.chat) EADEM_CHECK(nlohmann::json::parse(parsed.conversation.messages).is_array());
  return 0;
}
