#include "kernels/cuda/free/attention.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "kernels/cuda/attention/prefill.h"
#include "kernels/cuda/attention/splits.cuh"
#include "kernels/cuda/free/split_plan.h"
#include "kernels/cuda/free/splits.h"

namespace eadem::kernels::cuda {
namespace {

constexpr int kMostResident = 2;  // blocks of threads on a processor

size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

// A tile's rows and the chunks of its heads, as attention/attention.cu has them.
struct Cutting {
  int chunks, tile_rows;

  explicit Cutting(const AttentionShape& shape)
      : chunks((shape.group() + kRowHeads - 1) / kRowHeads), tile_rows(std::max(1, kRowHeads / shape.group())) {}
};

AttentionShape by_matrix_instructions(AttentionShape shape) {
  shape.numerics = Numerics::kMma16;
  return shape;
}

// Where the parts of the working memory begin.
struct Scratch {
  size_t parts, prefill, bytes;

  Scratch(const DeviceFacts& facts, const AttentionShape& shape) {
    const Cutting cutting(shape);
    const size_t units = static_cast<size_t>(kMostWaves) * kMostResident * static_cast<size_t>(facts.processors);
    const int floats = part_floats(kRowHeads, kv_tiles(shape.head_padded) * kKvTile);
    parts = padded(sizeof(uint32_t) * static_cast<size_t>(kMaxTiles * cutting.chunks * shape.kv_heads));
    prefill = padded(parts + units * static_cast<size_t>(floats) * sizeof(float));
    bytes = prefill + (prefill_serves(shape) ? prefill_scratch_bytes(shape, facts.processors) : 0);
  }
};

// Collects tiles and launches them whenever a launch is full.
class Launcher {
 public:
  Launcher(cudaStream_t stream, int processors, const AttentionShape& shape, const DeviceAttentionCall& call,
           int64_t max_positions, const Scratch& scratch, std::byte* memory)
      : stream_(stream),
        processors_(processors),
        tile_units_(int64_t{Cutting(shape).chunks} * shape.kv_heads *
                    std::min<int64_t>(kMostFreeSplits, max_positions / numerics::kKvBlock + 1)) {
    const Cutting cutting(shape);
    work_.shape = shape;
    work_.call = call;
    work_.group = shape.group();
    work_.chunks = cutting.chunks;
    work_.single_rows = call.run_count == call.rows;
    work_.tile_rows = work_.single_rows ? 1 : cutting.tile_rows;
    work_.counters = reinterpret_cast<uint32_t*>(memory);
    work_.parts = reinterpret_cast<float*>(memory + scratch.parts);
  }

  void add(const DeviceRun& run) {
    for (int row = run.row_begin; row < run.row_end; row += work_.tile_rows) {
      if (work_.tiles == kMaxTiles) launch();
      if (work_.tiles == 0) work_.first_row = row;
      const int rows = std::min(work_.tile_rows, run.row_end - row);
      work_.tile[work_.tiles++] = static_cast<uint32_t>(row) | static_cast<uint32_t>(rows) << 24;
    }
  }

  void launch() {
    if (work_.tiles > 0) launch_free_splits(stream_, processors_, work_, work_.tiles * tile_units_);
    work_.tiles = 0;
  }

 private:
  cudaStream_t stream_;
  int processors_;
  int64_t tile_units_;  // most units of a tile
  SplitWork work_;
};

}  // namespace

size_t free_attention_scratch_bytes(const DeviceFacts& facts, const AttentionShape& shape) {
  return Scratch(facts, by_matrix_instructions(shape)).bytes;
}

void free_attention(cudaStream_t stream, const DeviceFacts& facts, const AttentionShape& asked,
                    const DeviceAttentionCall& call, int64_t max_positions, void* scratch) {
  EADEM_CHECK(call.rows < 1 << 24 && max_positions <= INT32_MAX);
  const AttentionShape shape = by_matrix_instructions(asked);
  const Scratch parts(facts, shape);
  auto* const memory = static_cast<std::byte*>(scratch);
  Launcher launcher(stream, facts.processors, shape, call, max_positions, parts, memory);
  std::vector<DeviceRun> long_runs;
  for (int i = 0; i < call.run_count; ++i) {
    const DeviceRun& run = call.runs[i];
    if (run.row_end - run.row_begin >= kPrefillRows && prefill_serves(shape)) {
      long_runs.push_back(run);
    } else {
      launcher.add(run);
    }
  }
  launcher.launch();
  if (!long_runs.empty()) {
    attention_prefill(stream, shape, call, long_runs.data(), static_cast<int>(long_runs.size()), facts.processors,
                      memory + parts.prefill, PrefillOrder::kFree);
  }
}

}  // namespace eadem::kernels::cuda
