// The names of the numerics. A change that moves any golden hash is a new version; nothing else is.
#pragma once

#include <cstdint>
#include <string_view>

namespace eadem::numerics {

enum class Numerics : uint8_t { kMma16, kFma32, kInt8 };
inline constexpr Numerics kAllNumerics[] = {Numerics::kMma16, Numerics::kFma32, Numerics::kInt8};

// What users type and what fingerprints record.
constexpr std::string_view short_name(Numerics n) {
  return n == Numerics::kMma16 ? "mma16" : n == Numerics::kFma32 ? "fma32" : "int8";
}
constexpr std::string_view full_name(Numerics n) {
  return n == Numerics::kMma16 ? "mma16-v1" : n == Numerics::kFma32 ? "fma32-v1" : "int8-v1";
}

// The tree of attention: int8-v1 uses fma32's.
constexpr Numerics attention_tree(Numerics n) { return n == Numerics::kMma16 ? n : Numerics::kFma32; }

inline constexpr int kGroup = 16;     // products a MMA16 takes at once
inline constexpr int kLeaf = 32;      // products of a fma32 leaf; every K is padded to a multiple of it
inline constexpr int kKvBlock = 64;   // positions of a KV block
inline constexpr int kSplit = 1024;   // keys of an attention split, cut at absolute positions
inline constexpr int kLanes = 256;    // logical lanes of a vector sum
inline constexpr int kMaxHead = 256;  // largest head size

constexpr int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }
constexpr int padded_to_leaf(int k) { return static_cast<int>(round_up(k, kLeaf)); }

}  // namespace eadem::numerics
