// GGUF files, version 2 and 3, little-endian. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/tensor.h"
#include "weights/metadata.h"

namespace eadem::weights {

struct GgufFile {
  Metadata metadata;                // key-value pairs under their own names
  std::vector<TensorView> tensors;  // in the order of the file; shapes are row-major, outermost dimension first
};

// One whole file; the views point into `bytes`, which must outlive them. Every count, length, type, shape, offset and
// alignment is checked against the file before use; tensor types that are not in core/dtype.h are refused by name.
// `file` is the name in messages.
Result<GgufFile> read_gguf(std::span<const std::byte> bytes, const std::string& file);

// The parts of "<prefix>-00001-of-00003.gguf".
struct GgufSplitName {
  std::string prefix;
  int number = 0;  // from 1
  int count = 0;

  // The name of part `part` (from 1) of the same model.
  std::string part(int part) const;
};
std::optional<GgufSplitName> parse_split_name(std::string_view file_name);

}  // namespace eadem::weights
