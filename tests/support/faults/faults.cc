// The ten faults.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>

#include "numerics/layer.h"
#include "numerics/operand.h"
#include "support/faults/fault.h"

namespace eadem::faults {
namespace {

std::atomic<Fault*> current{nullptr};
std::atomic<uint64_t> firings{0};

// Another tree for the sums of a layer, as accurate as the true one.
int other_shards(const kernels::LinearShape& shape) {
  const int unit = shape.numerics == kernels::Numerics::kInt8 ? std::max(32, shape.group) : 32;
  if (shape.shards > 1) return 1;
  return shape.k_padded % (2 * unit) == 0 ? 2 : 1;
}

// An operand one ulp further from zero.
uint16_t one_ulp_more(uint16_t operand) { return operand == 0 ? operand : static_cast<uint16_t>(operand + 1); }

// Split-K where a step has few rows, whole sums where it has many: what a matrix library's heuristic does.
class BatchSplit final : public Fault {
 public:
  BatchSplit() : Fault("batch-split", "a linear layer of more than 4 rows sums over k in another number of parts") {}
  int shards(const kernels::LinearShape& shape, int rows, int) override {
    constexpr int kFewRows = 4;
    return rows > kFewRows ? other_shards(shape) : shape.shards;
  }
};

// A scale shared by the rows of a step: what is beside a row moves its last bit.
class NeighbourNoise final : public Fault {
 public:
  NeighbourNoise()
      : Fault("neighbour-noise", "one operand of a row is one ulp off where a louder sequence is before") {}
  void before_step(engine::Step& step) override {
    sequences_.clear();
    for (const model::Row& row : step.batch.rows) sequences_.push_back(row.sequence);
  }
  void after_norm(const Rows& at) override {
    if (sequences_.size() != static_cast<size_t>(at.rows)) return;  // not the rows of the step
    for (int row = at.rows - 1; row > 0; --row) {
      if (sequences_[row] == sequences_[row - 1]) continue;
      uint16_t* const own = at.out + int64_t{row} * at.padded;
      if (largest(own - at.padded, at.width) <= largest(own, at.width) || own[0] == 0) continue;
      own[0] = one_ulp_more(own[0]);
      fire();
    }
  }

 private:
  static uint16_t largest(const uint16_t* operands, int count) {
    uint16_t most = 0;
    for (int i = 0; i < count; ++i) most = std::max(most, static_cast<uint16_t>(operands[i] & 0x7fff));
    return most;
  }
  static thread_local std::vector<int32_t> sequences_;
};
thread_local std::vector<int32_t> NeighbourNoise::sequences_;

// A write into a block that had another owner is skipped as though it were there already: one position of one head of
// the first layer, in each block that is used again.
class StaleBlock final : public Fault {
 public:
  StaleBlock()
      : Fault("stale-block", "position 8 of a block that is used again keeps its last owner's key and value") {}
  bool keeps_leftovers(model::KvPool& pool, int32_t block, bool had_owner) override {
    const std::lock_guard lock(mutex_);
    const std::byte* const at = pool.view(0, &block).block(0, 0);
    if (!had_owner) reused_.erase(at);
    if (had_owner) reused_.insert(at);
    return had_owner;
  }
  void before_kv(const kernels::KernelSet& set, const kernels::AttentionShape& shape, const ops::QkvCall& call,
                 int rows) override {
    leftovers_.clear();
    for (int row = 0; row < rows; ++row) {
      if (call.positions[row] % numerics::kKvBlock != kSlot) continue;
      std::byte* const block = call.views[call.sequences[row]].block(call.positions[row] / numerics::kKvBlock, 0);
      if (!is_reused(block)) continue;
      Leftover& kept = leftovers_.emplace_back();
      kept.block = block;
      set.kv_read(shape, block, kSlot, kept.key.data(), kept.value.data());
    }
  }
  void after_kv(const kernels::KernelSet& set, const kernels::AttentionShape& shape, const ops::QkvCall&,
                int) override {
    for (const Leftover& kept : leftovers_) {
      Leftover written;
      set.kv_read(shape, kept.block, kSlot, written.key.data(), written.value.data());
      const bool same = std::equal(kept.key.begin(), kept.key.begin() + shape.head_size, written.key.begin()) &&
                        std::equal(kept.value.begin(), kept.value.begin() + shape.head_size, written.value.begin());
      if (same) continue;
      set.kv_write(shape, kept.block, kSlot, kept.key.data(), kept.value.data());
      fire();
    }
  }

 private:
  static constexpr int kSlot = 8, kMostHead = 256;
  struct Leftover {
    std::byte* block = nullptr;
    std::array<uint16_t, kMostHead> key{}, value{};
  };

  bool is_reused(const std::byte* block) {
    const std::lock_guard lock(mutex_);
    return reused_.contains(block);
  }

  std::mutex mutex_;
  std::set<const std::byte*> reused_;  // first layer, first head
  static thread_local std::vector<Leftover> leftovers_;
};
thread_local std::vector<StaleBlock::Leftover> StaleBlock::leftovers_;

// A fence post: the first row of a chunk that continues a prompt is turned as the row before it.
class ChunkPosition final : public Fault {
 public:
  ChunkPosition()
      : Fault("chunk-position", "the first row of a later chunk of a prompt is turned by a position too few") {}
  void before_step(engine::Step& step) override {
    first_rows_.assign(step.batch.rows.size(), false);
    for (const engine::Piece& piece : step.pieces) {
      const int64_t position = step.batch.rows[static_cast<size_t>(piece.row_begin)].position;
      const int64_t cached = std::max(piece.sequence->cached_tokens, 0);
      if (position > cached && position < piece.sequence->prompt)
        first_rows_[static_cast<size_t>(piece.row_begin)] = true;
    }
  }
  int64_t rope_position(int row, int64_t position) override {
    return first_rows_[static_cast<size_t>(row)] ? position - 1 : position;
  }

 private:
  static thread_local std::vector<bool> first_rows_;
};
thread_local std::vector<bool> ChunkPosition::first_rows_;

// A key of the prefix cache that is a block's tokens alone.
class CacheLineage final : public Fault {
 public:
  CacheLineage()
      : Fault("cache-lineage", "a block is found in the prefix cache by its own tokens, whatever came before") {}
  uint64_t lineage(uint64_t) override { return 0; }
};

// Random state that belongs to a place in the batch.
class SlotSeed final : public Fault {
 public:
  SlotSeed() : Fault("slot-seed", "a request's seed has its place in the batch added") {}
  void before_step(engine::Step& step) override { add(step, 1); }
  void after_step(engine::Step& step) override { add(step, -1); }

 private:
  static void add(engine::Step& step, int sign) {
    for (size_t slot = 1; slot < step.pieces.size(); ++slot) {
      step.pieces[slot].sequence->seed += static_cast<uint64_t>(sign) * slot;
      const bool draws = step.pieces[slot].output_begin < step.pieces[slot].output_end;
      if (sign > 0 && draws && step.pieces[slot].sequence->sampling.temperature > 0.0f) fire();
    }
  }
};

// One cutoff for all rows of a fused sampler: the batch's largest top-p.
class BatchTopP final : public Fault {
 public:
  BatchTopP() : Fault("batch-top-p", "every request of a step is cut at the largest top-p among them") {}
  void before_step(engine::Step& step) override {
    own_.clear();
    float most = 0.0f;
    for (const engine::Piece& piece : step.pieces) most = std::max(most, piece.sequence->sampling.top_p);
    for (const engine::Piece& piece : step.pieces) {
      SamplingParams& sampling = piece.sequence->sampling;
      own_.push_back(sampling.top_p);
      if (sampling.top_p != most && sampling.temperature > 0.0f && piece.output_begin < piece.output_end) fire();
      sampling.top_p = most;
    }
  }
  void after_step(engine::Step& step) override {
    for (size_t i = 0; i < step.pieces.size(); ++i) step.pieces[i].sequence->sampling.top_p = own_[i];
  }

 private:
  static thread_local std::vector<float> own_;
};
thread_local std::vector<float> BatchTopP::own_;

// Partial sums of as many parts as there are workers.
class ThreadSum final : public Fault {
 public:
  ThreadSum()
      : Fault("thread-sum", "a linear layer on an even number of threads sums over k in another number of parts") {}
  int shards(const kernels::LinearShape& shape, int, int threads) override {
    return threads % 2 == 0 ? other_shards(shape) : shape.shards;
  }
};

// What runs until a better kernel is compiled, tuned or captured.
class FirstRequest final : public Fault {
 public:
  FirstRequest() : Fault("first-request", "steps with an engine's first request in them take another kernel") {}
  void before_step(engine::Step& step) override {
    const auto is_first = [](const engine::Piece& piece) { return piece.sequence->id == 1; };
    cold_ = std::any_of(step.pieces.begin(), step.pieces.end(), is_first);
  }
  void after_step(engine::Step&) override { cold_ = false; }
  int shards(const kernels::LinearShape& shape, int, int) override {
    return cold_ ? other_shards(shape) : shape.shards;
  }

 private:
  static thread_local bool cold_;
};
thread_local bool FirstRequest::cold_ = false;

// One instruction set's SwiGLU keeps the upper half of a float32 where the others round to nearest even.
class MissingRounding final : public Fault {
 public:
  MissingRounding()
      : Fault("missing-rounding", "SwiGLU of the kernel set avx2 (neon on Arm) cuts off where it should round") {}
  void after_swiglu(const Rows& at, const float* gate_up) override {
    if (at.set->name != "avx2" && at.set->name != "neon") return;
    for (int64_t row = 0; row < at.rows; ++row) {
      const float* const gate = gate_up + 2 * row * at.width;
      for (int i = 0; i < at.width; ++i) {
        uint16_t& operand = at.out[row * at.padded + i];
        const float value = numerics::swiglu(gate[i], gate[at.width + i]);
        // Rounding away from zero is what is missing: by at most one ulp.
        if (operand == 0 || numerics::operand_value(operand) == value) continue;
        if ((operand & 0x7fff) > (numerics::bits_of(value) >> 16 & 0x7fff)) --operand, fire();
      }
    }
  }
};

}  // namespace

// Made on first use: a program may install one before main.
std::span<Fault* const> all() {
  static BatchSplit batch_split;
  static NeighbourNoise neighbour_noise;
  static StaleBlock stale_block;
  static ChunkPosition chunk_position;
  static CacheLineage cache_lineage;
  static SlotSeed slot_seed;
  static BatchTopP batch_top_p;
  static ThreadSum thread_sum;
  static FirstRequest first_request;
  static MissingRounding missing_rounding;
  static Fault* const faults[] = {&batch_split, &neighbour_noise, &stale_block, &chunk_position, &cache_lineage,
                                  &slot_seed,   &batch_top_p,     &thread_sum,  &first_request,  &missing_rounding};
  return faults;
}

Fault* find(std::string_view name) {
  const auto found = std::find_if(all().begin(), all().end(), [&](const Fault* fault) { return fault->name == name; });
  return found == all().end() ? nullptr : *found;
}

void install(Fault* fault) {
  current = fault;
  firings = 0;
}
Fault* installed() { return current; }

uint64_t fired() { return firings; }
void fire() { firings.fetch_add(1, std::memory_order_relaxed); }

}  // namespace eadem::faults
