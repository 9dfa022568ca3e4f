// A model without weights whose every logit depends on every earlier token of its sequence, read back through the KV
// pool: a row at a wrong position, a wrong block, a stale or missing key, and each answer is another one. It also
// checks what the engine promises of a batch. It can draw, like a model on a device: its steps are queued then and run
// on a thread of its own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "model/model.h"
#include "support/host_draw.h"
#include "support/plain_kernels.h"
#include "support/work_queue.h"

namespace eadem::testing {

struct FakeOptions {
  int64_t vocab = 101;
  int64_t context = 4096;
  int max_rows = 512;
  int threads = 1;
  uint64_t salt = 0;             // another one, another model
  int32_t poison = -1;           // rows of this token are bad
  int32_t nan_after = -1;        // the logits after this token are NaN
  bool batch_dependent = false;  // the negative control: a row knows how many rows it was computed with
  bool draws = false;
  bool forgets_draws = false;  // the negative control of it: a row takes token 0 for one that was drawn before
  std::function<void()> before_rows = nullptr;  // called in each step before its rows are computed
};

class FakeModel final : public model::Model {
 public:
  explicit FakeModel(const FakeOptions& fake) : fake_(fake), pool_(fake.threads) {
    config_.family = "fake";
    config_.vocab = fake.vocab;
    config_.layers = kLayers;
    config_.context = fake.context;
    config_.hidden = kHidden;
    shape_.heads = shape_.kv_heads = 1;
    shape_.head_size = 4;
    shape_.head_padded = 32;
    options_.kernels = &plain_kernels();
    options_.threads = fake.threads;
    options_.max_rows = fake.max_rows;
    for (Results& results : results_) results.bad = std::make_unique<bool[]>(static_cast<size_t>(fake.max_rows));
    if (!fake.draws) return;
    sampler_.emplace(plain_kernels(), static_cast<int>(fake.vocab));
    queue_ = std::make_unique<WorkQueue>();
  }

  const model::ModelConfig& config() const override { return config_; }
  const model::ModelOptions& options() const override { return options_; }
  const kernels::AttentionShape& attention_shape() const override { return shape_; }
  ThreadPool& pool() override { return pool_; }
  size_t weight_bytes() const override { return 0; }

  void forward(const model::Batch& batch, model::KvPool& kv, model::TraceSink* trace) override {
    check(batch);
    EADEM_CHECK(!fake_.draws || launched_ - finished_ < results_.size());
    Results& results = results_[++launched_ % results_.size()];
    results.rows = batch.rows.size();
    results.drawn.assign(batch.draws.size(), {});
    if (!fake_.draws) return run(batch, kv, results, trace);
    // As a device has it: nothing of the caller's is looked at later, but the pool.
    auto queued = std::make_shared<Queued>();
    queued->batch = batch;
    for (size_t table = 0; table < batch.tables.size(); ++table) {
      int64_t last = 0;
      for (const model::Row& row : batch.rows) {
        if (row.sequence == static_cast<int32_t>(table)) last = row.position;
      }
      queued->tables.emplace_back(batch.tables[table], batch.tables[table] + last / 64 + 1);
      queued->batch.tables[table] = queued->tables.back().data();
    }
    draws_ = batch.draws.size();
    results.number = queue_->add([this, queued, &kv, &results, trace] { run(queued->batch, kv, results, trace); });
  }

  void finish() override {
    if (!fake_.draws) return;
    EADEM_CHECK(finished_ < launched_);
    queue_->wait(results_[(finished_ + 1) % results_.size()].number);
    ++finished_;
  }

  std::span<const bool> bad() const override {
    const Results& results = results_[(fake_.draws ? finished_ : launched_) % results_.size()];
    return {results.bad.get(), results.rows};
  }
  bool draws() const override { return fake_.draws; }
  std::span<const kernels::DeviceDrawn> drawn() const override { return results_[finished_ % results_.size()].drawn; }

  const uint16_t* hidden(int row) const override { return &operands_[static_cast<size_t>(row * kHidden)]; }

  void logits(int begin, int end, float* out) override {
    EADEM_CHECK(0 <= begin && begin < end && end <= static_cast<int>(hidden_.size()));
    for (int o = begin; o < end; ++o, out += fake_.vocab) fill_logits(o, out);
  }

 private:
  static constexpr int kLayers = 2, kHidden = 8;

  struct Results {
    std::unique_ptr<bool[]> bad;
    size_t rows = 0;
    std::vector<kernels::DeviceDrawn> drawn;
    uint64_t number = 0;
  };
  struct Queued {
    model::Batch batch;
    std::vector<std::vector<int32_t>> tables;
  };

  void run(const model::Batch& batch, model::KvPool& kv, Results& results, model::TraceSink* trace) {
    if (fake_.before_rows) fake_.before_rows();
    rows_ = batch.rows.size();
    hidden_.clear();
    operands_.clear();
    nan_.clear();
    size_t next_output = 0;
    for (size_t r = 0; r < rows_; ++r) {
      model::Row row = batch.rows[r];
      if (row.drawn_by >= 0) row.token = fake_.forgets_draws ? 0 : drawn_[static_cast<size_t>(row.drawn_by)];
      results.bad[r] = row.token == fake_.poison;
      const uint64_t state = attend(row, batch.tables[row.sequence], kv);
      for (int i = 0; i < kHidden; ++i) operands_.push_back(operand_of(mixed(state + static_cast<uint64_t>(i))));
      if (trace != nullptr) {
        trace->record(batch, static_cast<int>(r), -1, "state", std::as_bytes(std::span<const uint64_t, 1>(&state, 1)));
      }
      if (next_output < batch.outputs.size() && batch.outputs[next_output] == static_cast<int32_t>(r)) {
        hidden_.push_back(state);
        nan_.push_back(row.token == fake_.nan_after);
        ++next_output;
      }
    }
    EADEM_CHECK(next_output == batch.outputs.size());
    if (!batch.draws.empty()) draw(batch, results);
  }

  void draw(const model::Batch& batch, Results& results) {
    drawn_.clear();
    std::vector<float> logits(static_cast<size_t>(fake_.vocab));
    for (size_t output = 0; output < batch.draws.size(); ++output) {
      fill_logits(static_cast<int>(output), logits.data());
      results.drawn[output] = draw_on_host(plain_kernels(), *sampler_, logits, batch.draws[output]);
      drawn_.push_back(results.drawn[output].token);
    }
  }

  void fill_logits(int output, float* out) const {
    const auto o = static_cast<size_t>(output);
    for (int64_t t = 0; t < fake_.vocab; ++t) {
      const uint64_t h = mixed(hidden_[o] ^ (static_cast<uint64_t>(t) << 40));
      const float logit = static_cast<float>(h >> 40) * 0x1p-21f - 4.0f;
      out[t] = nan_[o] ? std::numeric_limits<float>::quiet_NaN() : logit;
    }
  }

  // From 2^-40 to 2^41, either sign: a sum in another order rounds otherwise, in double too.
  static uint16_t operand_of(uint64_t h) { return static_cast<uint16_t>((h & 0x807f) | (87 + (h >> 16) % 81) << 7); }

  static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }

  // The row's state: of its token, its position, and the states of all positions before it, in each layer.
  uint64_t attend(const model::Row& row, const int32_t* table, model::KvPool& kv) {
    uint64_t state =
        mixed((static_cast<uint64_t>(row.token) << 32) + static_cast<uint64_t>(row.position) + 1 + (fake_.salt << 20));
    if (fake_.batch_dependent) state += rows_ > 1;
    for (int layer = 0; layer < kLayers; ++layer) {
      const kernels::KvView view = kv.view(layer, table);
      uint64_t seen = 0;
      for (int64_t p = 0; p < row.position; ++p) {
        uint64_t key = 0, value = 0;
        plain_kernels().kv_read(shape_, view.block(p / 64, 0), static_cast<int>(p % 64),
                                reinterpret_cast<uint16_t*>(&key), reinterpret_cast<uint16_t*>(&value));
        seen = mixed(seen + key * 3 + value);
      }
      state = mixed(state ^ mixed(seen + static_cast<uint64_t>(layer)));
      const uint64_t value = ~state;
      plain_kernels().kv_write(shape_, view.block(row.position / 64, 0), static_cast<int>(row.position % 64),
                               reinterpret_cast<const uint16_t*>(&state), reinterpret_cast<const uint16_t*>(&value));
    }
    return state;
  }

  void check(const model::Batch& batch) const {
    EADEM_CHECK(!batch.rows.empty() && static_cast<int>(batch.rows.size()) <= fake_.max_rows);
    std::vector<bool> begun(batch.tables.size());
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      const model::Row& row = batch.rows[r];
      EADEM_CHECK(row.position >= 0 && row.position < fake_.context);
      EADEM_CHECK(row.drawn_by >= 0 ? row.drawn_by < static_cast<int>(draws_)
                                    : row.token >= 0 && row.token < fake_.vocab);
      const bool goes_on = r > 0 && batch.rows[r - 1].sequence == row.sequence;
      EADEM_CHECK(goes_on ? batch.rows[r - 1].position + 1 == row.position : !begun[row.sequence]);
      begun[row.sequence] = true;
    }
    EADEM_CHECK(std::find(begun.begin(), begun.end(), false) == begun.end());
    EADEM_CHECK(std::adjacent_find(batch.outputs.begin(), batch.outputs.end(), std::greater_equal<>()) ==
                batch.outputs.end());
  }

  FakeOptions fake_;
  model::ModelConfig config_;
  model::ModelOptions options_;
  kernels::AttentionShape shape_;
  ThreadPool pool_;
  std::array<Results, 2> results_;  // of forward number i: element i % 2
  std::atomic<uint64_t> launched_{0}, finished_{0};
  size_t draws_ = 0;  // of the last forward
  // Of the forward that runs, or ran last.
  std::optional<sampler::Sampler> sampler_;
  std::vector<int32_t> drawn_;  // by output
  size_t rows_ = 0;
  std::vector<uint64_t> hidden_;      // by output
  std::vector<uint16_t> operands_;    // [rows][kHidden]
  std::vector<bool> nan_;             // by output
  std::unique_ptr<WorkQueue> queue_;  // the last member: what it runs uses all others
};

}  // namespace eadem::testing
