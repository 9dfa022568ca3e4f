#include "weights/gguf_types.h"

#include <array>
#include <string_view>
#include <utility>

namespace eadem::weights {
namespace {

// Indexed by GGUF's number; the empty ones were never released or were removed from the format.
constexpr std::array<std::string_view, 42> kNames = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0"};

constexpr std::array<std::pair<uint32_t, DType>, 13> kRead = {{{0, DType::kF32},
                                                               {1, DType::kF16},
                                                               {2, DType::kQ4_0},
                                                               {3, DType::kQ4_1},
                                                               {6, DType::kQ5_0},
                                                               {7, DType::kQ5_1},
                                                               {8, DType::kQ8_0},
                                                               {12, DType::kQ4_K},
                                                               {13, DType::kQ5_K},
                                                               {14, DType::kQ6_K},
                                                               {26, DType::kI32},
                                                               {27, DType::kI64},
                                                               {30, DType::kBF16}}};

constexpr bool names_agree() {
  for (const auto& [type, dtype] : kRead) {
    if (kNames[type] != info(dtype).name) return false;
  }
  return true;
}
static_assert(names_agree());

}  // namespace

std::optional<DType> gguf_dtype(uint32_t type) {
  for (const auto& [number, dtype] : kRead) {
    if (number == type) return dtype;
  }
  return std::nullopt;
}

std::string gguf_type_name(uint32_t type) {
  if (type < kNames.size() && !kNames[type].empty()) return std::string(kNames[type]);
  return "number " + std::to_string(type);
}

}  // namespace eadem::weights
