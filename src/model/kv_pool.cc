#include "model/kv_pool.h"

#include <cstring>

namespace eadem::model {
namespace {

size_t page_aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

size_t KvPool::block_bytes(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers) {
  return page_aligned(set.kv_bytes(shape)) * static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(layers);
}

Result<KvPool> KvPool::create(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers,
                              int blocks) {
  KvPool pool;
  pool.set_ = &set;
  pool.shape_ = shape;
  pool.layers_ = layers;
  pool.blocks_ = blocks;
  pool.head_stride_ = page_aligned(set.kv_bytes(shape));
  pool.block_stride_ = pool.head_stride_ * static_cast<size_t>(shape.kv_heads);
  pool.layer_stride_ = pool.block_stride_ * static_cast<size_t>(blocks);
  EADEM_ASSIGN_OR_RETURN(pool.memory_,
                         Buffer::allocate(pool.layer_stride_ * static_cast<size_t>(layers), "the KV pool"));
  return pool;
}

kernels::KvView KvPool::view(int layer, const int32_t* table) const {
  kernels::KvView view;
  view.base = const_cast<std::byte*>(memory_.data()) + static_cast<size_t>(layer) * layer_stride_;
  view.table = table;
  view.block_stride = block_stride_;
  view.head_stride = head_stride_;
  return view;
}

void KvPool::clear(int32_t block) {
  for (int layer = 0; layer < layers_; ++layer) {
    std::memset(
        memory_.data() + static_cast<size_t>(layer) * layer_stride_ + static_cast<size_t>(block) * block_stride_, 0,
        block_stride_);
  }
}

std::vector<uint16_t> KvPool::read(const int32_t* table, int64_t positions) const {
  const size_t row = static_cast<size_t>(shape_.kv_heads) * shape_.head_size;
  const size_t half = row * static_cast<size_t>(positions);
  std::vector<uint16_t> values(2 * half * static_cast<size_t>(layers_));
  for (int layer = 0; layer < layers_; ++layer) {
    const kernels::KvView kv = view(layer, table);
    uint16_t* const keys = values.data() + 2 * half * static_cast<size_t>(layer);
    for (int64_t position = 0; position < positions; ++position) {
      for (int head = 0; head < shape_.kv_heads; ++head) {
        const size_t at = static_cast<size_t>(position) * row + static_cast<size_t>(head) * shape_.head_size;
        set_->kv_read(shape_, kv.block(position / numerics::kKvBlock, head),
                      static_cast<int>(position % numerics::kKvBlock), keys + at, keys + half + at);
      }
    }
  }
  return values;
}

}  // namespace eadem::model
