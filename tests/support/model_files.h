// Model files made on the spot: tests describe tensors and metadata, and get the bytes of a safetensors or GGUF file.
// Written without the readers of src/weights, so that the two check each other.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace eadem::test {

// The bytes of a number as it lies in a little-endian file.
template <class T>
std::string bytes_of(T value) {
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

// A tensor to be written: row-major, outermost dimension first.
struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;
  std::string bytes;
};

inline int64_t elements(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  return count;
}

inline TensorSpec f32_tensor(std::string name, Shape shape, const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += bytes_of(value);
  return {std::move(name), DType::kF32, std::move(shape), std::move(bytes)};
}

// Half and bfloat16 by truncation of the significand; a half's value must be below 65536.
inline uint16_t half_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000;
  const float magnitude = std::abs(value);
  if (magnitude < 0x1p-14f) return static_cast<uint16_t>(sign | static_cast<uint32_t>(magnitude * 0x1p24f));
  return static_cast<uint16_t>(sign | ((bits & 0x7fffffff) - (112u << 23)) >> 13);
}
inline uint16_t bf16_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

// Weights of any type, the same for the same seed: about `spread` from zero in both directions. Block-quantised types
// get random quants and scales, so no quantiser is needed.
inline TensorSpec random_tensor(std::string name, DType dtype, Shape shape, uint64_t seed, float spread = 0.05f) {
  std::mt19937_64 random(seed);
  const auto uniform = [&random] { return static_cast<float>(random() >> 40) * 0x1p-24f; };  // [0, 1)
  const DTypeInfo type = info(dtype);
  std::string bytes;
  const auto put_half = [&bytes](size_t at, float value) {
    const std::string half = bytes_of(half_of(value));
    bytes.replace(at, half.size(), half);
  };
  for (int64_t block = 0; block < elements(shape) / type.block; ++block) {
    const float value = (2 * uniform() - 1) * spread;
    const float scale = (0.5f + uniform()) * spread;
    const size_t at = bytes.size();
    if (type.block > 1) {
      for (int i = 0; i < type.bytes; ++i) bytes += static_cast<char>(random());
    }
    switch (dtype) {
      case DType::kF32: bytes += bytes_of(value); break;
      case DType::kF16: bytes += bytes_of(half_of(value)); break;
      case DType::kBF16: bytes += bytes_of(bf16_of(value)); break;
      case DType::kQ8_0: put_half(at, scale / 127); break;
      case DType::kQ4_0: put_half(at, scale / 8); break;
      case DType::kQ5_0: put_half(at, scale / 16); break;
      case DType::kQ4_1: put_half(at, scale / 8), put_half(at + 2, -scale); break;
      case DType::kQ5_1: put_half(at, scale / 16), put_half(at + 2, -scale); break;
      case DType::kQ4_K: put_half(at, scale / 256), put_half(at + 2, scale / 32); break;
      case DType::kQ5_K: put_half(at, scale / 512), put_half(at + 2, scale / 32); break;
      case DType::kQ6_K: put_half(at + 208, scale / 1024); break;
      default: throw std::invalid_argument("random_tensor: an integer type");
    }
  }
  return {std::move(name), dtype, std::move(shape), std::move(bytes)};
}

// A safetensors file from its header's text and its data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return bytes_of<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

inline std::string safetensors_bytes(const std::vector<TensorSpec>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const TensorSpec& tensor : tensors) {
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" + std::string(info(tensor.dtype).name) +
              "\",\"shape\":" + to_string(tensor.shape) + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return safetensors_bytes(header, data);
}

// GGUF's numbers for value types and tensor types, as in the format's documentation.
inline uint32_t gguf_number(DType dtype) {
  switch (dtype) {
    case DType::kF32: return 0;
    case DType::kF16: return 1;
    case DType::kQ4_0: return 2;
    case DType::kQ4_1: return 3;
    case DType::kQ5_0: return 6;
    case DType::kQ5_1: return 7;
    case DType::kQ8_0: return 8;
    case DType::kQ4_K: return 12;
    case DType::kQ5_K: return 13;
    case DType::kQ6_K: return 14;
    case DType::kI32: return 26;
    case DType::kI64: return 27;
    case DType::kBF16: return 30;
    case DType::kU8: break;
  }
  throw std::invalid_argument("gguf_number: no such tensor type");
}
template <class T>
constexpr uint32_t gguf_value_type() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  return 12;  // double
}

inline std::string gguf_text(std::string_view text) { return bytes_of<uint64_t>(text.size()) + std::string(text); }

template <class T>
std::string gguf_payload(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return gguf_text(value);
  } else {
    return bytes_of(value);
  }
}

// One key-value pair: gguf_pair("llama.block_count", uint32_t{2}), gguf_pair("tokenizer.ggml.model",
// std::string("gpt2")).
template <class T>
std::string gguf_pair(std::string_view key, const T& value) {
  return gguf_text(key) + bytes_of(gguf_value_type<T>()) + gguf_payload(value);
}
template <class T>
std::string gguf_pair(std::string_view key, const std::vector<T>& values) {
  std::string out =
      gguf_text(key) + bytes_of<uint32_t>(9) + bytes_of(gguf_value_type<T>()) + bytes_of<uint64_t>(values.size());
  for (const T& value : values) out += gguf_payload<T>(value);
  return out;
}

// A GGUF file of version 3 from pairs (gguf_pair) and tensors. A file with another alignment also needs the pair
// general.alignment.
inline std::string gguf_bytes(const std::vector<std::string>& pairs, const std::vector<TensorSpec>& tensors,
                              size_t alignment = 32) {
  const auto pad = [alignment](std::string& bytes) {
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
  };
  std::string out =
      "GGUF" + bytes_of<uint32_t>(3) + bytes_of<uint64_t>(tensors.size()) + bytes_of<uint64_t>(pairs.size());
  for (const std::string& pair : pairs) out += pair;
  std::string data;
  for (const TensorSpec& tensor : tensors) {
    out += gguf_text(tensor.name) + bytes_of(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) out += bytes_of(tensor.shape[i]);
    out += bytes_of(gguf_number(tensor.dtype)) + bytes_of<uint64_t>(data.size());
    data += tensor.bytes;
    pad(data);
  }
  pad(out);
  return out + data;
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A fresh directory that goes with the object.
class TempDirectory {
 public:
  TempDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "eadem-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
    path_ = pattern;
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Writes a file into the directory and returns its path.
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    write_file(path_ / name, bytes);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace eadem::test
