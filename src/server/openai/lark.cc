#include "server/openai/lark.h"

#include <nlohmann/json.hpp>

namespace eadem::server {

std::string lark_text(std::string_view text) { return nlohmann::ordered_json(text).dump(); }

// The expression stays what it is; only what would end it is escaped.
std::string lark_regex(std::string_view regex) {
  std::string terminal = "/(?:";  // an empty one would begin a comment
  bool escaped = false;
  for (const char c : regex) {
    if (c == '/' && !escaped) terminal += '\\';
    if (c == '\n' || c == '\r') {
      if (!escaped) terminal += '\\';
      terminal += c == '\n' ? 'n' : 'r';
    } else {
      terminal += c;
    }
    escaped = c == '\\' && !escaped;
  }
  return terminal + ")/";
}

std::string lark_schema(std::string_view schema) {
  auto object = nlohmann::ordered_json::parse(schema);
  object["x-guidance"] = {{"whitespace_pattern", R"(\x20|\x0A\x20{0,32}|\x0A\x09{0,8})"}};
  return "%json " + object.dump();
}

}  // namespace eadem::server
