#include "kernels/cuda/attention/prefill.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/attention/prefill_args.h"
#include "kernels/cuda/tensor_map.h"
#include "numerics/attention.h"

namespace eadem::kernels::cuda {
namespace {

constexpr size_t kCounterBytes = 256;

// The head that a kernel computes, or 0.
int kernel_head(const AttentionShape& shape) {
  const int tiles = kv_tiles(shape.head_padded);
  return tiles == 1 || tiles == 2 || tiles == 4 ? tiles * kKvTile : 0;
}

// A tile of the call, and how many blocks of keys it walks.
struct Piece {
  const DeviceRun* run;
  int index;
  int64_t blocks;
};

std::vector<Piece> pieces_of(const AttentionShape& shape, const DeviceRun* runs, int run_count, int tile_rows) {
  std::vector<Piece> pieces;
  for (const DeviceRun* run = runs; run < runs + run_count; ++run) {
    const int rows = run->row_end - run->row_begin;
    for (int i = 0; i * tile_rows < rows; ++i) {
      const int64_t first = run->first_position + i * tile_rows;
      const int64_t last = run->first_position + std::min(rows, (i + 1) * tile_rows) - 1;
      const int64_t seen = numerics::first_visible(first, shape.window);
      pieces.push_back({run, i, last / numerics::kKvBlock + 1 - seen / numerics::kKvBlock});
    }
  }
  // The longest first, so that the last ones to end are short; runs stay together where they are as long.
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& x, const Piece& y) { return x.blocks > y.blocks; });
  return pieces;
}

// Takes pieces from `from` on as long as the arguments have room. Returns the first that it left.
size_t fill(PrefillArgs& args, const std::vector<Piece>& pieces, size_t from) {
  const DeviceRun* known[kPrefillRuns];
  int runs = 0;
  args.tile_count = 0;
  for (; from < pieces.size() && args.tile_count < kPrefillTiles; ++from) {
    const Piece& piece = pieces[from];
    const int run = static_cast<int>(std::find(known, known + runs, piece.run) - known);
    if (run == runs) {
      if (runs == kPrefillRuns) break;
      known[runs] = piece.run;
      args.runs[runs++] = {piece.run->sequence, piece.run->row_begin, piece.run->row_end - piece.run->row_begin,
                           static_cast<int>(piece.run->first_position)};
    }
    args.tiles[args.tile_count++] = {static_cast<uint16_t>(run), static_cast<uint16_t>(piece.index)};
  }
  return from;
}

}  // namespace

bool prefill_serves(const AttentionShape& shape) {
  return shape.numerics == Numerics::kMma16 && shape.head_size % 2 == 0 && kernel_head(shape) != 0;
}

size_t prefill_scratch_bytes(const AttentionShape& shape, int processors) {
  const int head = kernel_head(shape);
  return kCounterBytes +
         (head == 256 ? sizeof(float) * static_cast<size_t>(processors * prefill_rows(head) * head) : 0);
}

void attention_prefill(cudaStream_t stream, const AttentionShape& shape, const DeviceAttentionCall& call,
                       const DeviceRun* runs, int run_count, int processors, void* scratch, PrefillOrder order) {
  EADEM_CHECK(prefill_serves(shape));
  const int head = kernel_head(shape);
  const auto heads = static_cast<uint64_t>(shape.heads), padded = static_cast<uint64_t>(shape.head_padded);
  PrefillArgs args;
  args.q = make_tensor_map(call.q, TensorElement::kBf16, {padded, heads, static_cast<uint64_t>(call.rows)},
                           {padded * sizeof(uint16_t), heads * padded * sizeof(uint16_t)}, {64, 1, 64});
  args.kv = call.kv;
  args.out = call.out;
  args.out_stride = call.out_stride;
  args.bad = call.bad;
  args.next_tile = static_cast<int*>(scratch);
  args.totals = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + kCounterBytes);
  args.heads = shape.heads;
  args.group = shape.group();
  args.head_size = shape.head_size;
  args.window = static_cast<int>(std::min<int64_t>(shape.window, 1 << 30));
  args.c = shape.c;
  args.inverse_c = 1.0f / shape.c;
  const PrefillKernel kernel = order == PrefillOrder::kFree ? free_prefill_kernel(head) : prefill_kernel(head);
  const std::vector<Piece> pieces = pieces_of(shape, runs, run_count, prefill_rows(head));
  for (size_t from = 0; from < pieces.size();) {
    from = fill(args, pieces, from);
    kernel(stream, args, std::min(processors, args.tile_count * shape.heads));
  }
}

}  // namespace eadem::kernels::cuda
