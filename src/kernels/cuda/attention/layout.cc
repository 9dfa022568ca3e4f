#include "kernels/cuda/attention/layout.h"

namespace eadem::kernels::cuda {

size_t kv_bytes(const AttentionShape& shape) { return 2 * static_cast<size_t>(kv_image_bytes(shape.head_padded)); }

void kv_write(const AttentionShape& shape, std::byte* block, int slot, const uint16_t* k, const uint16_t* v) {
  auto* const keys = reinterpret_cast<uint16_t*>(block);
  auto* const values = reinterpret_cast<uint16_t*>(block + kv_image_bytes(shape.head_padded));
  for (int d = 0; d < shape.head_size; ++d) {
    keys[kv_element(slot, d)] = k[d];
    values[kv_element(slot, d)] = v[d];
  }
}

void kv_read(const AttentionShape& shape, const std::byte* block, int slot, uint16_t* k, uint16_t* v) {
  const auto* const keys = reinterpret_cast<const uint16_t*>(block);
  const auto* const values = reinterpret_cast<const uint16_t*>(block + kv_image_bytes(shape.head_padded));
  for (int d = 0; d < shape.head_size; ++d) {
    k[d] = keys[kv_element(slot, d)];
    v[d] = values[kv_element(slot, d)];
  }
}

}  // namespace eadem::kernels::cuda
