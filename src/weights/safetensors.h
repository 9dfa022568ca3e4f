// safetensors files: an 8-byte header length, a JSON header, the data. Source:
// https://github.com/huggingface/safetensors (Format).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/tensor.h"

namespace eadem::weights {

// The tensors of one whole file, in the order of their bytes, as views into `bytes` (which must outlive them). Every
// claim of the header is checked against the file: its length, duplicate names, dtypes (F32, F16, BF16, I32, I64, U8;
// others are refused by name), shapes (no zero or negative dimension, no overflow), sizes, and offsets, which must
// cover the data without gap, overlap or misalignment. `file` is the name in messages.
Result<std::vector<TensorView>> read_safetensors(std::span<const std::byte> bytes, const std::string& file);

// The weight_map of a model.safetensors.index.json: tensor -> shard. Shards are names of files beside the index, never
// paths.
Result<std::map<std::string, std::string>> read_safetensors_index(std::string_view text, const std::string& file);

}  // namespace eadem::weights
