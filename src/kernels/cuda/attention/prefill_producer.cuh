// The producer of prefill attention: one thread, which brings Q, and block after block of K and V.
#pragma once

#include "kernels/cuda/attention/prefill_tile.cuh"

namespace eadem::kernels::cuda {

template <class T>
struct PrefillProducer {
  const PrefillArgs& a;
  int key_stage = 0, key_parity = 1, value_stage = 0, value_parity = 1;
  PrefillBlocks of_group[T::kGroups] = {};
  PrefillBlocks of_tile = {};
  const std::byte* head_base = nullptr;

  EADEM_DEVICE const std::byte* image(int id) const { return head_base + static_cast<size_t>(id) * a.kv.block_stride; }
  // Arrives for the warpgroups that do not look at a block.
  EADEM_DEVICE void stand_in(int block, uint32_t empty) const {
    int idle = 0;
#pragma unroll
    for (int g = 0; g < T::kGroups; ++g) idle += block < of_group[g].begin || block >= of_group[g].end;
    if (idle > 0) barrier_arrive(empty, group_arrivals(4 * idle, 32));
  }
  EADEM_DEVICE void load_keys(int block, int id) {
    const uint32_t full = T::kKFull + 8 * key_stage, empty = T::kKEmpty + 8 * key_stage;
    barrier_wait(empty, key_parity);
    barrier_expect(full, T::kImage);
    bulk_load(T::kK + key_stage * T::kImage, image(id), T::kImage, full);
    stand_in(block, empty);
    if (++key_stage == T::kKeys) key_stage = 0, key_parity ^= 1;
  }
  EADEM_DEVICE void load_values(int block, int id) {
    const uint32_t full = T::kVFull + 8 * value_stage, empty = T::kVEmpty + 8 * value_stage;
    barrier_wait(empty, value_parity);
    barrier_expect(full, T::kImage);
    bulk_load(T::kV + value_stage * T::kImage, image(id) + T::kImage, T::kImage, full);
    stand_in(block, empty);
    if (++value_stage == T::kValues) value_stage = 0, value_parity ^= 1;
  }

  EADEM_DEVICE void run() {
    const int works = a.tile_count * a.heads;
    int work = next_ticket(a.next_tile);
#pragma unroll 1
    for (int n = 0;; ++n) {
      const bool on = work < works;
      const PrefillWork w = work_of(a, on ? work : 0, 64 * T::kGroups);
      const int* table = a.kv.tables + w.run.sequence * a.kv.table_stride;
      head_base = a.kv.base + static_cast<size_t>(w.head / a.group) * a.kv.head_stride;
      of_tile = blocks_of(a, w.run, w.row, 64 * T::kGroups);
#pragma unroll
      for (int g = 0; g < T::kGroups; ++g) of_group[g] = blocks_of(a, w.run, w.row + 64 * g, 64);
      int id = table[of_tile.begin];
#pragma unroll 1
      for (int g = 0; g < T::kGroups; ++g) {
        barrier_wait(T::kQEmpty + 8 * g, (n & 1) ^ 1);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(T::kWork + 4 * g), "r"(on ? work : -1) : "memory");
        if (!on) {
          barrier_arrive(T::kQFull + 8 * g);
          continue;
        }
        barrier_expect(T::kQFull + 8 * g, T::kImage);
        for (int t = 0; t < T::kTiles; ++t) {
          tensor_load(T::kQ + g * T::kImage + t * kKvTileBytes, &a.q, T::kQFull + 8 * g, 64 * t, w.head,
                      w.run.row_begin + w.row + 64 * g);
        }
        if (g == 0) load_keys(of_tile.begin, id);
      }
      if (!on) break;
      work = next_ticket(a.next_tile);
      int next = table[min(of_tile.begin + 1, of_tile.end - 1)];
#pragma unroll 1
      for (int block = of_tile.begin; block < of_tile.end; ++block) {
        const int after = table[min(block + 2, of_tile.end - 1)];  // asked for two blocks ahead
        if (block + 1 < of_tile.end) load_keys(block + 1, next);
        load_values(block, id);
        id = next, next = after;
      }
    }
  }
};

}  // namespace eadem::kernels::cuda
