#include "model/kv_pool.h"

#include <algorithm>
#include <cstring>

namespace eadem::model {
namespace {

size_t page_aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

size_t KvPool::block_bytes(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers) {
  return page_aligned(set.kv_bytes(shape)) * static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(layers);
}

Result<KvPool> KvPool::create(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers,
                              int blocks, kernels::Device* device) {
  KvPool pool;
  pool.set_ = &set;
  pool.device_ = device;
  pool.shape_ = shape;
  pool.layers_ = layers;
  pool.blocks_ = blocks;
  pool.head_stride_ = page_aligned(set.kv_bytes(shape));
  const size_t heads = pool.head_stride_ * static_cast<size_t>(shape.kv_heads);
  const size_t bytes = heads * static_cast<size_t>(layers) * static_cast<size_t>(blocks);
  if (device != nullptr) {
    // A block's layers lie together, so that it is cleared and read in one go.
    pool.layer_stride_ = heads;
    pool.block_stride_ = heads * static_cast<size_t>(layers);
    EADEM_ASSIGN_OR_RETURN(pool.memory_, device->allocate(bytes, "the KV pool"));
  } else {
    pool.block_stride_ = heads;
    pool.layer_stride_ = heads * static_cast<size_t>(blocks);
    EADEM_ASSIGN_OR_RETURN(pool.memory_, Buffer::allocate(bytes, "the KV pool"));
  }
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

kernels::DeviceKv KvPool::device_view(int layer, const int32_t* tables, int64_t table_stride) const {
  kernels::DeviceKv view;
  view.base = const_cast<std::byte*>(memory_.data()) + static_cast<size_t>(layer) * layer_stride_;
  view.tables = tables;
  view.table_stride = table_stride;
  view.block_stride = block_stride_;
  view.head_stride = head_stride_;
  return view;
}

void KvPool::clear(int32_t block) {
  std::byte* const memory = memory_.data() + static_cast<size_t>(block) * block_stride_;
  if (device_ != nullptr) return device_->clear(memory, block_stride_);
  for (int layer = 0; layer < layers_; ++layer) {
    std::memset(memory + static_cast<size_t>(layer) * layer_stride_, 0, block_stride_);
  }
}

// What of `values` (as read() fills it, for `positions` positions) a block holds, from position `first` on.
void KvPool::read_block(int32_t block, int64_t first, int64_t positions, std::byte* copy, uint16_t* values) const {
  const std::byte* memory = memory_.data() + static_cast<size_t>(block) * block_stride_;
  if (device_ != nullptr) {
    device_->download(copy, memory, block_stride_);
    memory = copy;
  }
  const size_t row = static_cast<size_t>(shape_.kv_heads) * shape_.head_size;
  const size_t half = row * static_cast<size_t>(positions);
  for (int layer = 0; layer < layers_; ++layer) {
    uint16_t* const keys = values + 2 * half * static_cast<size_t>(layer);
    const std::byte* const layer_memory = memory + static_cast<size_t>(layer) * layer_stride_;
    for (int64_t position = first; position < std::min(positions, first + numerics::kKvBlock); ++position) {
      for (int head = 0; head < shape_.kv_heads; ++head) {
        const size_t at = static_cast<size_t>(position) * row + static_cast<size_t>(head) * shape_.head_size;
        set_->kv_read(shape_, layer_memory + static_cast<size_t>(head) * head_stride_,
                      static_cast<int>(position - first), keys + at, keys + half + at);
      }
    }
  }
}

std::vector<uint16_t> KvPool::read(const int32_t* table, int64_t positions) const {
  const size_t row = static_cast<size_t>(shape_.kv_heads) * shape_.head_size;
  std::vector<uint16_t> values(2 * row * static_cast<size_t>(positions) * static_cast<size_t>(layers_));
  std::vector<std::byte> copy(device_ != nullptr ? block_stride_ : 0);
  for (int64_t first = 0; first < positions; first += numerics::kKvBlock) {
    read_block(table[first / numerics::kKvBlock], first, positions, copy.data(), values.data());
  }
  return values;
}

}  // namespace eadem::model
