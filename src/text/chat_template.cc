#include "text/chat_template.h"

#include <cstdio>
#include <limits>
#include <utility>

#include "text/c_api.h"

namespace eadem::text {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

ChatTemplate::ChatTemplate(EademTemplate* handle) : handle_(handle, [](EademTemplate* t) { eadem_template_free(t); }) {}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  EademTemplate* handle = nullptr;
  EademBuffer error{};
  if (eadem_template_new(to_bytes(source), &handle, &error)) return Error{take(error)};
  return ChatTemplate(handle);
}

Result<std::optional<std::string>> ChatTemplate::find_in_config(std::string_view tokenizer_config,
                                                                std::string_view name) {
  int found = 0;
  EademBuffer out{}, error{};
  if (eadem_config_template(to_bytes(tokenizer_config), to_bytes(name), &found, &out, &error)) {
    return Error{take(error)};
  }
  std::string source = take(out);
  return found ? std::optional(std::move(source)) : std::nullopt;
}

Result<std::string> ChatTemplate::render(const ChatInput& input, RenderLimits limits) const {
  const std::string variables = "{\"messages\":" + input.messages_json + ",\"tools\":" + input.tools_json +
                                ",\"documents\":" + input.documents_json +
                                ",\"add_generation_prompt\":" + (input.add_generation_prompt ? "true" : "false") +
                                ",\"bos_token\":" + json_string(input.bos_token) +
                                ",\"eos_token\":" + json_string(input.eos_token) + "}";
  return render_with(variables, input.kwargs_json, limits);
}

Result<std::string> ChatTemplate::render_json(std::string_view variables_json, RenderLimits limits) const {
  return render_with(variables_json, {}, limits);
}

Result<std::string> ChatTemplate::render_with(std::string_view variables, std::string_view overrides,
                                              RenderLimits limits) const {
  EademBuffer out{}, error{};
  const int64_t now = limits.now.value_or(std::numeric_limits<int64_t>::min());
  if (eadem_template_render(handle_.get(), to_bytes(variables), to_bytes(overrides), limits.fuel, now, &out, &error)) {
    return Error{take(error)};
  }
  return take(out);
}

}  // namespace eadem::text
