// The memory of all keys and values: blocks of 64 positions, every layer and KV head of each. Blocks are numbered; who
// owns which is the engine's business (engine/kv_cache.h), how a block is laid out the kernel set's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/device.h"
#include "kernels/kernel_set.h"

namespace eadem::model {

class KvPool {
 public:
  // Zero-filled memory for `blocks` blocks: of this machine, or of a device, whose packing set is `set` then.
  static Result<KvPool> create(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers,
                               int blocks, kernels::Device* device);

  int blocks() const { return blocks_; }
  // Bytes of one block over all layers and heads.
  static size_t block_bytes(const kernels::KernelSet& set, const kernels::AttentionShape& shape, int layers);

  // Of a pool in this machine's memory.
  kernels::KvView view(int layer, const int32_t* table) const;
  // Of a pool in a device's memory; `tables` lie there too.
  kernels::DeviceKv device_view(int layer, const int32_t* tables, int64_t table_stride) const;
  // Zeroes a block in all layers, so that nothing of its last owner is left.
  void clear(int32_t block);
  // Keys then values of `positions` positions of a sequence as little-endian operands: layer, k then v, position, head,
  // element (the order in which KV hashes are defined).
  std::vector<uint16_t> read(const int32_t* table, int64_t positions) const;

 private:
  void read_block(int32_t block, int64_t first, int64_t positions, std::byte* copy, uint16_t* values) const;

  const kernels::KernelSet* set_ = nullptr;
  kernels::Device* device_ = nullptr;
  kernels::AttentionShape shape_;
  int layers_ = 0, blocks_ = 0;
  size_t head_stride_ = 0, block_stride_ = 0, layer_stride_ = 0;
  Buffer memory_;
};

}  // namespace eadem::model
