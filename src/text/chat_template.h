// Chat templates: the text that a model was trained to see for a conversation, rendered byte for byte as the
// transformers library renders it with Jinja2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

struct EademTemplate;

namespace eadem::text {

// What a chat template sees. Fields ending in _json hold JSON text.
struct ChatInput {
  std::string messages_json = "[]";  // array of {"role": ..., "content": ...}
  std::string tools_json = "null";   // array of tool descriptions, or null
  std::string documents_json = "null";
  bool add_generation_prompt = true;  // end with what opens the assistant's answer
  std::string bos_token = {};         // as text; empty where the model has none
  std::string eos_token = {};
  std::string kwargs_json = {};  // chat_template_kwargs: an object whose members override all of the above; or empty
};

struct RenderLimits {
  uint64_t fuel = 4'000'000;        // one for each instruction and for each 64 bytes made; about 256 MB at most
  std::optional<int64_t> now = {};  // what strftime_now sees, seconds since 1970 in UTC; none: the clock, in local time
};

// Never changes after it was made: any number of threads may render one, and copies share it.
class ChatTemplate {
 public:
  static Result<ChatTemplate> parse(std::string_view source);
  // The template called `name` in a tokenizer_config.json ("default" also finds the only one); none if there is none.
  static Result<std::optional<std::string>> find_in_config(std::string_view tokenizer_config,
                                                           std::string_view name = "default");

  Result<std::string> render(const ChatInput& input, RenderLimits limits = {}) const;
  // With any variables, a JSON object.
  Result<std::string> render_json(std::string_view variables_json, RenderLimits limits = {}) const;

 private:
  explicit ChatTemplate(EademTemplate* handle);
  Result<std::string> render_with(std::string_view variables, std::string_view overrides, RenderLimits limits) const;

  std::shared_ptr<const EademTemplate> handle_;
};

}  // namespace eadem::text
