// Which kernel takes which rows. Long runs go to the warpgroup kernel where it has the shape; all others are cut into
// units of at most 16 row-heads and one split.
#include "kernels/cuda/attention/attention.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/attention/prefill.h"
#include "kernels/cuda/attention/split_launch.h"
#include "kernels/cuda/attention/splits.cuh"

namespace eadem::kernels::cuda {
namespace {

using numerics::kSplit;

// Partial results are kept for so many bytes of units at once; longer calls are several launches.
constexpr size_t kPartBytes = size_t{128} << 20;

size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

int chunks_of(const AttentionShape& shape) { return (shape.group() + kRowHeads - 1) / kRowHeads; }
int tile_rows_of(const AttentionShape& shape) { return std::max(1, kRowHeads / shape.group()); }

// Bytes of the partial results of a tile of `rows` rows, for each of its splits.
size_t split_bytes(const AttentionShape& shape, int rows) {
  const int chunks = chunks_of(shape), heads = chunks > 1 ? kRowHeads : rows * shape.group();
  return sizeof(float) * static_cast<size_t>(chunks * shape.kv_heads) *
         static_cast<size_t>(part_floats(heads, kv_tiles(shape.head_padded) * kKvTile));
}

// Most splits of a tile whose positions are below `positions`.
int64_t most_splits(const AttentionShape& shape, int64_t positions) {
  const int64_t all = (positions + kSplit - 1) / kSplit;
  return shape.window == 0 ? all : std::min(all, (shape.window + kRowHeads) / kSplit + 2);
}

// Where the parts of the working memory begin.
struct Scratch {
  size_t parts, part_bytes, prefill, bytes;
};
Scratch scratch_of(const DeviceFacts& facts, const AttentionShape& shape, int max_rows, int64_t max_positions) {
  const size_t splits = static_cast<size_t>(most_splits(shape, max_positions));
  const size_t largest_tile = splits * split_bytes(shape, tile_rows_of(shape));
  const size_t all = static_cast<size_t>(max_rows) * splits * split_bytes(shape, 1);
  Scratch scratch;
  scratch.parts = padded(sizeof(uint32_t) * static_cast<size_t>(kMaxTiles * chunks_of(shape) * shape.kv_heads));
  scratch.part_bytes = std::max(largest_tile, std::min(all, kPartBytes));
  scratch.prefill = padded(scratch.parts + scratch.part_bytes);
  scratch.bytes = scratch.prefill + (prefill_serves(shape) ? prefill_scratch_bytes(shape, facts.processors) : 0);
  return scratch;
}

// Collects tiles and launches them whenever the working memory is full.
class SplitLauncher {
 public:
  SplitLauncher(cudaStream_t stream, int processors, const AttentionShape& shape, const DeviceAttentionCall& call,
                bool single_rows, const Scratch& scratch, std::byte* memory)
      : stream_(stream), processors_(processors), part_bytes_(scratch.part_bytes) {
    work_.shape = shape;
    work_.call = call;
    work_.group = shape.group();
    work_.chunks = chunks_of(shape);
    work_.single_rows = single_rows;
    work_.tile_rows = single_rows ? 1 : tile_rows_of(shape);
    work_.counters = reinterpret_cast<uint32_t*>(memory);
    work_.parts = reinterpret_cast<float*>(memory + scratch.parts);
  }

  void add(int row, int rows, int64_t splits) {
    const size_t bytes = static_cast<size_t>(splits) * split_bytes(work_.shape, work_.tile_rows);
    if (work_.tiles == kMaxTiles || bytes_ + bytes > part_bytes_) launch();
    if (work_.tiles == 0) work_.first_row = row;
    work_.tile[work_.tiles++] = static_cast<uint32_t>(row) | static_cast<uint32_t>(rows) << 24;
    bytes_ += bytes;
    units_ += splits * work_.chunks * work_.shape.kv_heads;
  }

  void launch() {
    if (work_.tiles == 0) return;
    const auto start = work_.shape.numerics == Numerics::kMma16 ? launch_mma16_splits : launch_fma32_splits;
    start(stream_, processors_, work_, units_);
    work_.tiles = 0;
    bytes_ = 0;
    units_ = 0;
  }

 private:
  cudaStream_t stream_;
  int processors_;
  size_t part_bytes_, bytes_ = 0;
  int64_t units_ = 0;
  SplitWork work_;
};

void add_run(SplitLauncher& launcher, const AttentionShape& shape, const DeviceRun& run) {
  const int tile_rows = tile_rows_of(shape);
  for (int row = run.row_begin; row < run.row_end; row += tile_rows) {
    const int rows = std::min(tile_rows, run.row_end - row);
    const int64_t first = run.first_position + (row - run.row_begin);
    const int64_t splits = (first + rows - 1) / kSplit - numerics::first_visible(first, shape.window) / kSplit + 1;
    launcher.add(row, rows, splits);
  }
}

}  // namespace

size_t attention_scratch_bytes(const DeviceFacts& facts, const AttentionShape& shape, int max_rows,
                               int64_t max_positions) {
  return scratch_of(facts, shape, max_rows, max_positions).bytes;
}

void attention(cudaStream_t stream, const DeviceFacts& facts, const AttentionShape& shape,
               const DeviceAttentionCall& call, int max_rows, int64_t max_positions, void* scratch) {
  EADEM_CHECK(call.rows <= max_rows && call.rows < 1 << 24 && max_positions <= INT32_MAX);
  const Scratch parts = scratch_of(facts, shape, max_rows, max_positions);
  auto* const memory = static_cast<std::byte*>(scratch);
  // A call of single rows may be a graph's: nothing of it may follow from the positions, which change.
  const bool single_rows = call.run_count == call.rows;
  SplitLauncher launcher(stream, facts.processors, shape, call, single_rows, parts, memory);
  if (single_rows) {
    for (int row = 0; row < call.rows; ++row) launcher.add(row, 1, most_splits(shape, max_positions));
    launcher.launch();
    return;
  }
  std::vector<DeviceRun> long_runs;
  for (int i = 0; i < call.run_count; ++i) {
    const DeviceRun& run = call.runs[i];
    if (run.row_end - run.row_begin >= kPrefillRows && prefill_serves(shape)) {
      long_runs.push_back(run);
    } else {
      add_run(launcher, shape, run);
    }
  }
  launcher.launch();
  if (!long_runs.empty()) {
    attention_prefill(stream, shape, call, long_runs.data(), static_cast<int>(long_runs.size()), facts.processors,
                      memory + parts.prefill);
  }
}

}  // namespace eadem::kernels::cuda
