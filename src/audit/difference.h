// Where two answers part, and the levels at which they can be compared.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::audit {

// From the strongest down: what holds at one level holds at those after it.
enum class Level : uint8_t {
  kBits,          // all that answers tell of their numbers, as float32
  kTokens,        // token ids, text and finish reason
  kDistribution,  // answers to the same prompts under other seeds come from one distribution, within a declared margin
  kQuality,       // metrics of the answers are the same on average, within a declared margin
};
inline constexpr Level kAllLevels[] = {Level::kBits, Level::kTokens, Level::kDistribution, Level::kQuality};

// "bits", "tokens", "distribution", "quality".
std::string_view name_of(Level level);
// The error says what it must be.
Result<Level> parse_level(std::string_view name);

// The first place where two answers differ at `level` (kBits or kTokens), in the order token ids, logprobs, likely
// tokens, those of the prompt, text, finish reason, hash of the KV values; null where there is none. Answers are
// objects as `eadem generate` writes them. The difference is {"field", "position", "was", "is"}, each side {"value"},
// and "bits" (eight hexadecimal digits of the float32; "null" for a masked token's) where it is a logprob; "position"
// is left out where the field is no list, and a side that ends before the position has the value "none". Text, finish
// reason and hash count where `was` has them.
nlohmann::ordered_json first_difference(const nlohmann::ordered_json& was, const nlohmann::ordered_json& is,
                                        Level level = Level::kBits);

// A difference in words: "token_ids[3]: was 5, is 9".
std::string describe_difference(const nlohmann::ordered_json& difference);

}  // namespace eadem::audit
