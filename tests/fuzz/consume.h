// What a fuzz target does with the outcome of a reader: an error must be one short line; a success must hold up to use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/result.h"
#include "core/tensor.h"
#include "numerics/formats.h"
#include "weights/finite.h"
#include "weights/metadata.h"

namespace eadem::fuzz {

inline void consume(const Error& error) {
  EADEM_CHECK(!error.message.empty() && error.message.size() < 1000);
  EADEM_CHECK(error.message.find('\n') == std::string::npos);
}

// Tensors lie inside the file, have the size of their shape, and every row can be decoded.
inline void consume(const std::vector<TensorView>& tensors, std::span<const std::byte> file) {
  std::vector<float> row;
  for (const TensorView& tensor : tensors) {
    const DTypeInfo type = info(tensor.dtype);
    EADEM_CHECK(tensor.data >= file.data() && tensor.data + tensor.bytes <= file.data() + file.size());
    EADEM_CHECK(tensor.columns() > 0 && tensor.columns() % type.block == 0);
    EADEM_CHECK(tensor.bytes % tensor.row_bytes() == 0 && tensor.bytes > 0);
    if (const auto finite = weights::check_finite_scales(tensor); !finite.ok()) consume(finite.error());
    if (tensor.dtype == DType::kI32 || tensor.dtype == DType::kI64 || tensor.dtype == DType::kU8) continue;
    row.resize(static_cast<size_t>(tensor.columns()));
    for (size_t at = 0; at < tensor.bytes; at += tensor.row_bytes()) {
      numerics::decode_row(tensor.dtype, tensor.data + at, tensor.columns(), row.data());
    }
  }
}

template <class T>
void consume(const weights::Metadata& metadata, const std::string& key) {
  const auto value = metadata.get<T>(key);
  if (!value.ok()) consume(value.error());
}

// Every key answers to every type, by a value or by an error.
inline void consume(const weights::Metadata& metadata) {
  for (const auto& [key, value] : metadata.values()) {
    consume<bool>(metadata, key);
    consume<int64_t>(metadata, key);
    consume<double>(metadata, key);
    consume<std::string>(metadata, key);
    consume<std::vector<bool>>(metadata, key);
    consume<std::vector<int64_t>>(metadata, key);
    consume<std::vector<double>>(metadata, key);
    consume<weights::StringList>(metadata, key);
  }
}

}  // namespace eadem::fuzz
