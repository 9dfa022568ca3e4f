#include "server/openai/logprobs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "server/openai/json_text.h"

namespace eadem::server {
namespace {

constexpr std::string_view kMasked = "-9999.0";

void separate(std::string& list) {
  if (!list.empty()) list += ',';
}

std::span<const TokenLogprob> top_of(const SampledToken& token, int k) {
  return std::span(token.top).first(std::min(token.top.size(), static_cast<size_t>(std::max(k, 0))));
}

}  // namespace

size_t count_characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string token_name(const TokenStyle& style, int32_t token) {
  const std::string_view bytes = style.engine->token_bytes(token);
  if (style.as_ids || bytes.empty()) return "token_id:" + std::to_string(token);
  if (is_utf8(bytes)) return std::string(bytes);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    name += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return name;
}

void CompletionLogprobs::add(const SampledToken& token, bool nothing_before) {
  separate(tokens_);
  append_string(tokens_, token_name(style_, token.token));
  separate(logprobs_);
  append_logprob(logprobs_, token.logprob, nothing_before ? "null" : kMasked);
  separate(top_);
  if (nothing_before) {
    top_ += "null";
  } else {
    add_top(token);
  }
  separate(offsets_);
  append_integer(offsets_, static_cast<int64_t>(offset_));
  const bool shown = !(style_.skip_special && style_.engine->is_special(token.token));
  if (shown) offset_ += count_characters(style_.engine->token_bytes(token.token));
}

// Tokens may share a text: the likelier one stays.
void CompletionLogprobs::add_top(const SampledToken& token) {
  std::vector<std::string> names;
  top_ += '{';
  const auto add = [&](int32_t id, float logprob) {
    std::string name = token_name(style_, id);
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    if (!names.empty()) top_ += ',';
    append_string(top_, name);
    top_ += ':';
    append_logprob(top_, logprob, kMasked);
    names.push_back(std::move(name));
  };
  for (const TokenLogprob& entry : top_of(token, style_.top)) add(entry.token, entry.logprob);
  add(token.token, token.logprob);
  top_ += '}';
}

std::string CompletionLogprobs::take() {
  std::string out = "{\"tokens\":[" + std::exchange(tokens_, {}) + "],\"token_logprobs\":[" +
                    std::exchange(logprobs_, {}) + "],\"top_logprobs\":[" + std::exchange(top_, {}) +
                    "],\"text_offset\":[" + std::exchange(offsets_, {}) + "]}";
  return out;
}

void ChatLogprobs::add_entry(int32_t token, float logprob) {
  entries_ += "{\"token\":";
  append_string(entries_, token_name(style_, token));
  entries_ += ",\"logprob\":";
  append_logprob(entries_, logprob, kMasked);
  entries_ += ",\"bytes\":";
  const std::string_view bytes = style_.engine->token_bytes(token);
  if (bytes.empty()) {
    entries_ += "null";
    return;
  }
  entries_ += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) entries_ += ',';
    append_integer(entries_, static_cast<unsigned char>(bytes[i]));
  }
  entries_ += ']';
}

void ChatLogprobs::add(const SampledToken& token) {
  separate(entries_);
  add_entry(token.token, token.logprob);
  entries_ += ",\"top_logprobs\":[";
  bool first = true;
  for (const TokenLogprob& entry : top_of(token, style_.top)) {
    if (!first) entries_ += ',';
    first = false;
    add_entry(entry.token, entry.logprob);
    entries_ += '}';
  }
  entries_ += "]}";
}

std::string ChatLogprobs::take() { return "{\"content\":[" + std::exchange(entries_, {}) + "],\"refusal\":null}"; }

std::string prompt_logprobs_json(const TokenStyle& style, const std::vector<SampledToken>& tokens) {
  std::string out = "[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0) {
      out += "null";
      continue;
    }
    const auto top = top_of(tokens[i], style.top);
    const auto add = [&](int32_t id, float logprob, size_t rank) {
      append_string(out, std::to_string(id));
      out += ":{\"logprob\":";
      append_logprob(out, logprob, "null");
      out += ",\"rank\":" + (rank > 0 ? std::to_string(rank) : "null") + ",\"decoded_token\":";
      append_string(out, token_name(style, id));
      out += '}';
    };
    size_t own_rank = 0;
    for (size_t r = 0; r < top.size(); ++r) {
      if (top[r].token == tokens[i].token) own_rank = r + 1;
    }
    out += ",{";
    add(tokens[i].token, tokens[i].logprob, own_rank);
    for (size_t r = 0; r < top.size(); ++r) {
      if (r + 1 == own_rank) continue;
      out += ',';
      add(top[r].token, top[r].logprob, r + 1);
    }
    out += '}';
  }
  return out + "]";
}

}  // namespace eadem::server
