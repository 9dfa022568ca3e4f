// The kernel over wgmma.cuh: what happens to a finished tile, and the order of shards.
#pragma once

#include "kernels/cuda/linear/swiglu.cuh"
#include "kernels/cuda/linear/wgmma.cuh"

namespace eadem::kernels::cuda {

// Predicated, so that no branch stands beside a wgmma in flight.
EADEM_DEVICE float2 load_if(bool on, const float* from) {
  float2 v = {0.0f, 0.0f};
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p ld.global.v2.f32 {%0, %1}, [%2];}"
               : "+f"(v.x), "+f"(v.y)
               : "l"(from), "r"(static_cast<int>(on)));
  return v;
}
EADEM_DEVICE void store_if(bool on, float* to, float x, float y) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p st.global.v2.f32 [%0], {%1, %2};}" ::"l"(to), "f"(x), "f"(y),
               "r"(static_cast<int>(on))
               : "memory");
}

// A thread's outputs of a tile: pairs of columns `column + 8 j` in the rows `row` and `row + 8`.
struct WgmmaOutput {
  const float* bias;
  float *upper, *lower;
  int columns;  // how many lie from `column` on
  bool has_upper, has_lower;

  EADEM_DEVICE WgmmaOutput(const WgmmaArgs& a, int row, int column, bool on)
      : bias(a.bias + (a.bias != nullptr ? column : 0)),
        upper(a.y + row * a.y_stride + column),
        lower(upper + 8 * a.y_stride),
        columns(a.n - column),
        has_upper(on && row < a.rows),
        has_lower(on && row + 8 < a.rows) {}

  // What y holds, or zeros: h[4 j ...] for the groups first_group + j.
  template <int kCount>
  EADEM_DEVICE void residual(const WgmmaArgs& a, int first_group, float (&h)[kCount]) const {
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      const int at = 8 * (first_group + j);
      const bool on = a.add_to_y && at < columns;
      const float2 u = load_if(on && has_upper, upper + at), l = load_if(on && has_lower, lower + at);
      h[4 * j] = u.x, h[4 * j + 1] = u.y, h[4 * j + 2] = l.x, h[4 * j + 3] = l.y;
    }
  }
  // y + (d + bias). Where there is no bias or no residual a +0 is added: no sum of a chain or a tree is -0.
  EADEM_DEVICE float4 value(int group, const float* d, const float* h) const {
    const float2 b = load_if(bias != nullptr && 8 * group < columns, bias + 8 * group);
    return {
        numerics::add_f32(h[0], numerics::add_f32(d[0], b.x)), numerics::add_f32(h[1], numerics::add_f32(d[1], b.y)),
        numerics::add_f32(h[2], numerics::add_f32(d[2], b.x)), numerics::add_f32(h[3], numerics::add_f32(d[3], b.y))};
  }
  EADEM_DEVICE void store(int group, float4 v) const {
    const bool on = 8 * group < columns;
    store_if(on && has_upper, upper + 8 * group, v.x, v.y);
    store_if(on && has_lower, lower + 8 * group, v.z, v.w);
  }
};

template <class T>
EADEM_DEVICE WgmmaOutput output_of(const WgmmaConsumer<T>& c, const WgmmaPlace& place, bool on) {
  const int lane = c.thread % 32;
  return WgmmaOutput(c.a, place.row_tile * T::kRows + c.group * 64 + c.thread / 32 * 16 + lane / 4,
                     place.column_tile * T::kColumns + lane % 4 * 2, on);
}

// Where a thread's first element of its upper row lies in a box of 64 rows x 32 columns; the row's 16-byte chunks are
// swizzled by `line`. The lower row is 1,024 bytes further.
struct WgmmaBoxSlot {
  uint32_t at;
  int line, half;  // half: of a pair of chunks

  EADEM_DEVICE WgmmaBoxSlot(uint32_t box, int thread)
      : at(box + (thread / 32 * 16 + thread % 32 / 4) * 128 + (thread & 1) * 8),
        line(thread % 32 / 4),
        half(thread % 4 / 2) {}
  // Of the group of eight columns `group` (0 ... 3).
  EADEM_DEVICE uint32_t of(int group) const { return at + (((2 * group + half) ^ line) << 4); }
};

// v: the thread's values of the box's four groups. Lanes of odd rows take the groups two further first, so that the
// rows of a store meet different banks.
EADEM_DEVICE void fill_box(uint32_t box, int thread, const float4 (&v)[4]) {
  const WgmmaBoxSlot slot(box, thread);
  const bool odd = slot.line & 1;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float4 first = odd ? v[j + 2] : v[j], second = odd ? v[j] : v[j + 2];
    const uint32_t first_at = slot.of(odd ? j + 2 : j), second_at = slot.of(odd ? j : j + 2);
    shared_store(first_at, first.x, first.y);
    shared_store(first_at + 1024, first.z, first.w);
    shared_store(second_at, second.x, second.y);
    shared_store(second_at + 1024, second.z, second.w);
  }
}
// The same way back, into h[4 group + ...].
EADEM_DEVICE void read_box(uint32_t box, int thread, float* h) {
  const WgmmaBoxSlot slot(box, thread);
  const bool odd = slot.line & 1;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t first_at = slot.of(odd ? j + 2 : j), second_at = slot.of(odd ? j : j + 2);
    const float2 fu = shared_load_pair(first_at), fl = shared_load_pair(first_at + 1024);
    const float2 su = shared_load_pair(second_at), sl = shared_load_pair(second_at + 1024);
    float *low = h + 4 * j, *high = h + 4 * (j + 2);
    low[0] = odd ? su.x : fu.x, low[1] = odd ? su.y : fu.y, low[2] = odd ? sl.x : fl.x, low[3] = odd ? sl.y : fl.y;
    high[0] = odd ? fu.x : su.x, high[1] = odd ? fu.y : su.y, high[2] = odd ? fl.x : sl.x, high[3] = odd ? fl.y : sl.y;
  }
}

// One of the warpgroup's two boxes, which may be filled now.
template <class T>
EADEM_DEVICE uint32_t next_box(WgmmaConsumer<T>& c) {
  const uint32_t box = c.b.extra + c.group * 2 * kWgmmaBoxBytes + (c.boxes & 1) * kWgmmaBoxBytes;
  ++c.boxes;
  if (c.thread == 0) tensor_store_wait_read<1>();
  named_barrier(1 + c.group, 128);
  return box;
}
template <class T>
EADEM_DEVICE void send_box(WgmmaConsumer<T>& c, uint32_t box, int column, int row) {
  fence_async_proxy();
  named_barrier(1 + c.group, 128);
  if (c.thread == 0) tensor_store(c.y_map, box, column, row);
}
template <class T>
EADEM_DEVICE void store_box(WgmmaConsumer<T>& c, const float4 (&v)[4], int column, int row) {
  const uint32_t box = next_box(c);
  fill_box(box, c.thread, v);
  send_box(c, box, column, row);
}

// A tile with nothing in flight, to which nothing is added.
template <class T>
EADEM_DEVICE void store_tile(WgmmaConsumer<T>& c, float (&d)[T::kRegisters], const WgmmaPlace& place) {
#pragma unroll
  for (int j = 0; j < T::kRegisters / 4; j += 4) {
    float4 v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* from = d + 4 * (j + i);
      v[i] = {from[0], from[1], from[2], from[3]};
    }
    store_box(c, v, place.column_tile * T::kColumns + 8 * j, place.row_tile * T::kRows + c.group * 64);
  }
}

// A tile with nothing in flight.
template <class T>
EADEM_DEVICE void finish_chain(WgmmaConsumer<T>& c, float (&d)[T::kRegisters], const WgmmaPlace& place) {
  if constexpr (T::kBoxes) {
    if (c.a.boxes && !c.a.add_to_y && c.a.bias == nullptr) return store_tile(c, d, place);
  }
  const WgmmaOutput out = output_of(c, place, true);
  constexpr int kGroups = T::kBoxes ? 4 : 2;
#pragma unroll
  for (int j = 0; j < T::kRegisters / 4; j += kGroups) {
    float h[4 * kGroups];
    out.residual(c.a, j, h);
    float4 v[kGroups];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) v[i] = out.value(j + i, d + 4 * (j + i), h + 4 * i);
    if constexpr (T::kBoxes) {
      if (c.a.boxes) {
        store_box(c, v, place.column_tile * T::kColumns + 8 * j, place.row_tile * T::kRows + c.group * 64);
        continue;
      }
    }
#pragma unroll
    for (int i = 0; i < kGroups; ++i) out.store(j + i, v[i]);
  }
}

// A tile of gates and ups with nothing in flight: a thread has an output's gate and its up. Boxes are 64 rows x 64
// operands, swizzled like those of floats; a group of eight columns is a chunk of 16 bytes of a row.
template <class T>
EADEM_DEVICE void finish_gated(WgmmaConsumer<T>& c, float (&d)[T::kRegisters], const WgmmaPlace& place) {
  constexpr int kGroups = T::kRegisters / 8;  // of gates
  const int lane = c.thread % 32, line = lane / 4, first_row = place.row_tile * T::kRows + c.group * 64;
  const int box_row = c.thread / 32 * 16 + line;
  bool upper_good = true, lower_good = true;
#pragma unroll
  for (int first = 0; first < kGroups; first += 8) {
    uint32_t upper[8], lower[8];
    const float *gates = d + 4 * first, *ups = gates + 4 * kGroups;
    gated_row(gates, ups, upper, upper_good);
    gated_row(gates + 2, ups + 2, lower, lower_good);
    const uint32_t box = next_box(c), at = box + box_row * 128 + lane % 4 * 4;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      shared_store(at + ((j ^ line) << 4), upper[j]);
      shared_store(at + 1024 + ((j ^ line) << 4), lower[j]);
    }
    send_box(c, box, place.column_tile * T::kOutputs + 8 * first, first_row);
  }
  const int row = first_row + box_row;
  if (!upper_good && row < c.a.rows) c.a.bad[row] = true;
  if (!lower_good && row + 8 < c.a.rows) c.a.bad[row + 8] = true;
}

// The residual of the columns that a block of a cluster finishes.
template <class T>
EADEM_DEVICE void split_residual(WgmmaConsumer<T>& c, const WgmmaPlace& place, float (&h)[T::kRegisters / 2]) {
  output_of(c, place, true).residual(c.a, c.b.part != 0 ? T::kRegisters / 8 : 0, h);
}

// Two blocks of a cluster hold one half of the tree each: each sends the columns that the other finishes. The ring is
// empty by then.
template <class T>
EADEM_DEVICE void finish_split(WgmmaConsumer<T>& c, float (&d)[T::kRegisters], const float (&h)[T::kRegisters / 2],
                               const WgmmaPlace& place) {
  constexpr int kHalf = T::kRegisters / 8;  // groups of eight columns that a block finishes
  constexpr int kThreads = 128 * T::kGroups;
  const bool upper = c.b.part != 0;
  const WgmmaOutput out = output_of(c, place, true);
  const int first = upper ? kHalf : 0, lane_slot = c.group * 128 + c.thread;
  named_barrier(3, kThreads);
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    const float *low = d + 4 * j, *high = d + 4 * (j + kHalf);
    shared_store(c.b.ring + (j * kThreads + lane_slot) * 16, upper ? low[0] : high[0], upper ? low[1] : high[1],
                 upper ? low[2] : high[2], upper ? low[3] : high[3]);
  }
  cluster_arrive();
  cluster_wait();
  const uint32_t other = remote_address(c.b.ring, c.b.part ^ 1);
#pragma unroll
  for (int j = 0; j < kHalf; ++j) {
    const float *low = d + 4 * j, *high = d + 4 * (j + kHalf);
    const float4 v = cluster_load(other + (j * kThreads + lane_slot) * 16);
    float sum[4] = {upper ? high[0] : low[0], upper ? high[1] : low[1], upper ? high[2] : low[2],
                    upper ? high[3] : low[3]};
    sum[0] = numerics::add_f32(sum[0], v.x), sum[1] = numerics::add_f32(sum[1], v.y);
    sum[2] = numerics::add_f32(sum[2], v.z), sum[3] = numerics::add_f32(sum[3], v.w);
    out.store(first + j, out.value(first + j, sum, h + 4 * j));
  }
}

template <class T>
EADEM_DEVICE void multiply_chains(WgmmaConsumer<T>& c) {
  float d[T::kRegisters];
  const int tiles = c.a.row_tiles * c.a.column_tiles;
  for (int tile = c.b.cluster; tile < tiles; tile += c.b.clusters) {
    pin(d);
    c.start(d, [] {});
    c.drain(d);
    if constexpr (T::kGated) {
      finish_gated(c, d, place_of(c.a, tile));
    } else {
      finish_chain(c, d, place_of(c.a, tile));
    }
  }
  if constexpr (T::kBoxes) {
    if (c.thread == 0) tensor_store_wait_read<0>();
  }
}

// The shards of a tile, from `x` on; nothing is in flight before or after. Two or four: the sum is left in z. Eight:
// the first half of the tree is parked (where the stores of the tile before have been read), the second left in y.
template <class T>
EADEM_DEVICE void multiply_shards(WgmmaConsumer<T>& c, float (&x)[T::kRegisters], float (&y)[T::kRegisters],
                                  float (&z)[T::kRegisters], uint32_t parked) {
  const auto nothing = [] {};
  c.start(x, nothing);
  c.follow(y, x, nothing);
  if constexpr (T::kShards == 2) {
    c.drain(y);
#pragma unroll
    for (int i = 0; i < T::kRegisters; ++i) {
      z[i] = numerics::add_f32(x[i], y[i]);
      asm volatile("" : "+f"(z[i]));
    }
  } else if constexpr (T::kShards == 4) {
    c.follow(z, y, [&] { add_into(x, y); });
    c.follow(y, z, nothing);
    c.drain(y);
    add_into(z, y);
#pragma unroll
    for (int i = 0; i < T::kRegisters; ++i) z[i] = numerics::add_f32(x[i], z[i]);
  } else {
    c.follow(z, y, [&] { add_into(x, y); });
    c.follow(y, z, nothing);
    c.drain(y);
    add_into(z, y);
    c.start(y, [&] {
      add_into(x, z);
      if (c.thread == 0) tensor_store_wait_read<0>();
      named_barrier(1 + c.group, 128);
      park(x, parked);
    });
    c.follow(x, y, nothing);
    c.follow(z, x, [&] { add_into(y, x); });
    c.follow(x, z, nothing);
    c.drain(x);
    add_into(z, x);
    add_into(y, z);
  }
}

// A tree's tile by boxes: the residual comes through the ring, the result leaves from where half the tree was parked.
template <class T>
EADEM_DEVICE void finish_tree(WgmmaConsumer<T>& c, float (&d)[T::kRegisters], const WgmmaPlace& place) {
  const WgmmaOutput out = output_of(c, place, true);
  const uint32_t boxes = c.b.extra + c.group * (T::kExtraBytes / 2);
  if (c.thread == 0) tensor_store_wait_read<0>();
  named_barrier(1 + c.group, 128);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float h[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) h[i] = 0.0f;
    if (c.a.add_to_y) {
      barrier_poll(c.b.barriers + 8 * c.stage, c.parity);
      const uint32_t from = c.b.ring + c.stage * T::kStageBytes + c.group * 2 * kWgmmaBoxBytes;
      read_box(from, c.thread, h);
      read_box(from + kWgmmaBoxBytes, c.thread, h + 16);
      c.advance();
      named_barrier(1 + c.group, 128);
      c.release();
    }
#pragma unroll
    for (int box = 0; box < 2; ++box) {
      float4 v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int group = 8 * half + 4 * box + j;
        v[j] = out.value(group, d + 4 * group, h + 16 * box + 4 * j);
      }
      fill_box(boxes + (2 * half + box) * kWgmmaBoxBytes, c.thread, v);
    }
  }
  fence_async_proxy();
  named_barrier(1 + c.group, 128);
  if (c.thread == 0) {
    for (int box = 0; box < 4; ++box) {
      tensor_store(c.y_map, boxes + box * kWgmmaBoxBytes, place.column_tile * T::kColumns + box * kWgmmaBoxColumns,
                   place.row_tile * T::kRows + c.group * 64);
    }
  }
}

template <class T>
EADEM_DEVICE void multiply_trees(WgmmaConsumer<T>& c) {
  float x[T::kRegisters], y[T::kRegisters], z[T::kRegisters];
  const int tiles = c.a.row_tiles * c.a.column_tiles;
  const uint32_t parked = c.b.extra + c.group * (T::kExtraBytes / 2) + c.thread * 16;
  auto& sum = *[&] {
    if constexpr (T::kParks)
      return &y;
    else
      return &z;
  }();
  constexpr bool kResidualFirst = T::kSplit > 1 && T::kRegisters <= 32;  // there are registers for it
  for (int tile = c.b.cluster; tile < tiles; tile += c.b.clusters) {
    const WgmmaPlace place = place_of(c.a, tile);
    float h[T::kSplit > 1 ? T::kRegisters / 2 : 1];
    if constexpr (kResidualFirst) split_residual(c, place, h);
    multiply_shards(c, x, y, z, parked);
    if constexpr (T::kParks) add_parked(sum, parked);
    if constexpr (T::kSplit > 1) {
      if constexpr (!kResidualFirst) split_residual(c, place, h);
      finish_split(c, sum, h, place);
    } else if (c.a.boxes) {
      finish_tree(c, sum, place);
    } else {
      finish_chain(c, sum, place);
    }
  }
  if (c.thread == 0) tensor_store_wait_read<0>();
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1)
    wgmma_linear(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap x_tail_map,
                 const __grid_constant__ CUtensorMap y_map, const WgmmaArgs a) {
  extern __shared__ char shared[];
  launch_dependents();
  WgmmaBlock b;
  b.ring = (shared_address(shared) + 1023) & ~1023u;
  b.extra = b.ring + T::kStages * T::kStageBytes;
  b.barriers = b.extra + T::kExtraBytes;
  constexpr bool kCluster = T::kSplit > 1;
  b.part = kCluster ? static_cast<int>(cluster_rank()) : 0;
  b.cluster = kCluster ? blockIdx.x / 2 : blockIdx.x;
  b.clusters = kCluster ? gridDim.x / 2 : gridDim.x;
  if (threadIdx.x == 32) {
    prefetch_map(&x_map);
    prefetch_map(&x_tail_map);
    if (a.boxes) prefetch_map(&y_map);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kStages; ++i) {
      barrier_init(b.barriers + 8 * i, 2);
      barrier_init(b.barriers + 8 * (T::kStages + i), group_arrivals(T::kGroups, 128));
    }
    barrier_init_fence();
  }
  __syncthreads();
  if constexpr (kCluster) {
    cluster_arrive();
    cluster_wait();
  }
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (group == 0) {
    if constexpr (T::kGroups > 1) registers_give<40>();
    WgmmaLoader<T> loader{a, b};
    if (threadIdx.x == 0) loader.weights();
    if (threadIdx.x == 64) {
      wait_for_prerequisites();
      loader.rows(&x_map, &x_tail_map, &y_map);
    }
    if constexpr (T::kSplit > 1) {  // the producers' side of the join
      cluster_arrive();
      cluster_wait();
    }
  } else {
    if constexpr (T::kGroups > 1) registers_take<232>();
    wait_for_prerequisites();
    WgmmaConsumer<T> c{a, b, &y_map, group - 1, static_cast<int>(threadIdx.x % 128)};
    if constexpr (T::kShards == 1) {
      multiply_chains(c);
    } else {
      multiply_trees(c);
    }
  }
  if constexpr (kCluster) {  // no block ends while its neighbour may still write into it
    cluster_arrive();
    cluster_wait();
  }
}

}  // namespace eadem::kernels::cuda
