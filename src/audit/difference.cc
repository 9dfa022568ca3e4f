#include "audit/difference.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kNames[] = {"bits", "tokens", "distribution", "quality"};

// null stands for NaN; anything else that is no number, too, and so differs from every number.
float float_of(const ordered_json& value) {
  return value.is_number() ? static_cast<float>(value.get<double>()) : std::numeric_limits<float>::quiet_NaN();
}

std::string bits_of(float value) {
  if (std::isnan(value)) return "null";
  char text[16];
  std::snprintf(text, sizeof(text), "%08" PRIx32, std::bit_cast<uint32_t>(value));
  return text;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// Texts may hold bytes that are no UTF-8.
std::string text_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json side(const ordered_json& value, bool is_float) {
  ordered_json object = {{"value", value}};
  if (is_float) object["bits"] = bits_of(float_of(value));
  return object;
}

// The first place where two arrays differ.
ordered_json compare_arrays(const std::string& field, const ordered_json& was, const ordered_json& is) {
  const bool floats = field.find("logprobs") != std::string::npos;
  if (!was.is_array() || !is.is_array())
    return {{"field", field}, {"position", 0}, {"was", side(was, false)}, {"is", side(is, false)}};
  for (size_t i = 0; i < std::max(was.size(), is.size()); ++i) {
    const ordered_json a = i < was.size() ? was[i] : ordered_json("none");
    const ordered_json b = i < is.size() ? is[i] : ordered_json("none");
    const bool scalar = floats && !a.is_array() && !a.is_string() && !b.is_array() && !b.is_string();
    if (scalar ? same(float_of(a), float_of(b)) : text_of(a) == text_of(b)) continue;
    return {{"field", field}, {"position", i}, {"was", side(a, scalar)}, {"is", side(b, scalar)}};
  }
  return nullptr;
}

}  // namespace

std::string_view name_of(Level level) { return kNames[static_cast<size_t>(level)]; }

Result<Level> parse_level(std::string_view name) {
  for (const Level level : kAllLevels) {
    if (name == name_of(level)) return level;
  }
  return Error{"bits, tokens, distribution or quality"};
}

// Lists of likely tokens are compared as text: each float32 has its own, -0 too.
ordered_json first_difference(const ordered_json& was, const ordered_json& is, Level level) {
  EADEM_CHECK(level == Level::kBits || level == Level::kTokens);
  for (const char* field : {"token_ids", "logprobs", "top_logprobs", "prompt_logprobs", "prompt_top_logprobs"}) {
    if (level == Level::kTokens && field != std::string_view("token_ids")) break;
    if (!was.contains(field) && !is.contains(field)) continue;
    ordered_json difference = compare_arrays(field, was.value(field, ordered_json()), is.value(field, ordered_json()));
    if (!difference.is_null()) return difference;
  }
  for (const char* field : {"text", "finish_reason", "kv_hash"}) {
    if (!was.contains(field) || (level == Level::kTokens && field == std::string_view("kv_hash"))) continue;
    const ordered_json now = is.value(field, ordered_json());
    if (was[field] != now) return {{"field", field}, {"was", side(was[field], false)}, {"is", side(now, false)}};
  }
  return nullptr;
}

std::string describe_difference(const ordered_json& difference) {
  const auto words = [](const ordered_json& one) {
    return text_of(one["value"]) + (one.contains("bits") ? " (" + one["bits"].get<std::string>() + ")" : "");
  };
  const std::string at = difference.contains("position") ? "[" + difference["position"].dump() + "]" : "";
  return difference["field"].get<std::string>() + at + ": was " + words(difference["was"]) + ", is " +
         words(difference["is"]);
}

}  // namespace eadem::audit
