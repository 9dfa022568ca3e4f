// A device made of this machine's kernels, so that the path of a model on a device is tested where there is none. Its
// pointers are moved out of the address space: whoever takes one for the host's falls.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/device.h"
#include "numerics/operand.h"
#include "ops/attention.h"
#include "sampler/sampler.h"

namespace eadem::testing {

class HostDevice : public kernels::Device {
 public:
  // memory: bytes that may be allocated.
  explicit HostDevice(size_t memory = size_t{1} << 40) : memory_(memory), set_(kernels::best_kernel_set()), pool_(1) {
    facts_.name = "host";
    facts_.architecture = "host";
  }

  const kernels::DeviceFacts& facts() const override { return facts_; }
  const kernels::KernelSet& packing() const override { return set_; }
  uint64_t calls() const override { return calls_; }

  Result<Buffer> allocate(size_t bytes, std::string_view what) override {
    if (used_ + bytes > memory_) return Error{"no device memory for " + std::string(what)};
    EADEM_ASSIGN_OR_RETURN(Buffer buffer, Buffer::allocate(bytes, what));
    if (bytes == 0) return buffer;
    used_ += bytes;
    std::byte* const pointer = buffer.data();
    auto* const kept = new Buffer(std::move(buffer));
    const auto release = [](void* owner, std::byte*, size_t) { delete static_cast<Buffer*>(owner); };
    return Buffer::adopt(moved(pointer, kAway), {release, kept, bytes});
  }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(here(to), from, bytes); }
  // Slow enough that whoever reads what another thread is still fetching is seen to.
  void download(void* to, const void* from, size_t bytes) override {
    const std::lock_guard lock(download_mutex_);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    std::memcpy(to, here(from), bytes);
  }
  void clear(void* to, size_t bytes) override {
    launch([=] { std::memset(here(to), 0, bytes); });
  }
  void wait() override {}
  // As a device does it: the third time, the ops of the second run with the arguments they had then.
  void replay(const kernels::ReplayKey& key, const std::function<void()>& ops) override {
    const std::lock_guard lock(queue_mutex_);
    const auto [found, is_new] = recordings_.try_emplace(key);
    if (is_new) return ops();
    if (found->second.empty()) {
      recording_ = &found->second;
      ops();
      recording_ = nullptr;
      return;
    }
    ++replays_;
    for (auto& op : found->second) op();
  }
  uint64_t replays() const { return replays_; }
  Result<void> reserve(const kernels::DeviceNeeds& needs) override {
    max_rows_ = needs.max_rows, max_draws_ = needs.max_draws;
    if (!sampler_ || vocab_ != needs.vocab) sampler_.emplace(set_, vocab_ = needs.vocab);
    return {};
  }

  void embed(const uint16_t* table, const int32_t* tokens, int rows, int n, float* h) override {
    launch([=, this] {
      begin(rows);
      for (int row = 0; row < rows; ++row) {
        if (here(tokens)[row] < 0) continue;
        const uint16_t* const from = here(table) + int64_t{here(tokens)[row]} * n;
        for (int i = 0; i < n; ++i) here(h)[int64_t{row} * n + i] = numerics::operand_value(from[i]);
      }
    });
  }
  void rms_norm(const float* x, const float* weight, int rows, int n, int n_padded, float eps, uint16_t* y,
                bool* bad) override {
    launch([=, this] {
      begin(rows);
      for (int64_t row = 0; row < rows; ++row) {
        if (!set_.rms_norm(here(x) + row * n, here(weight), n, n_padded, eps, here(y) + row * n_padded)) {
          here(bad)[row] = true;
        }
      }
    });
  }
  void split_qkv(const kernels::QkvShape& asked, const kernels::AttentionShape& attention,
                 const kernels::DeviceQkvCall& call, int rows) override {
    launch([=, this] {
      begin(rows);
      kernels::QkvShape shape = asked;
      shape.q_norm = here(asked.q_norm), shape.k_norm = here(asked.k_norm);
      const int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.head_size, pairs = shape.rotary / 2;
      std::vector<uint16_t> k(static_cast<size_t>(shape.kv_heads * shape.head_size)), v = k;
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<float> qkv(here(call.qkv) + row * width, here(call.qkv) + (row + 1) * width);
        if (!set_.split_qkv(shape, qkv.data(), here(call.cosine) + row * pairs, here(call.sine) + row * pairs,
                            here(call.q) + row * shape.heads * shape.head_padded, k.data(), v.data())) {
          here(call.bad)[row] = true;
        }
        const int64_t position = here(call.positions)[row];
        if (position < 0) continue;
        const kernels::KvView view = view_of(call.kv, here(call.sequences)[row]);
        for (int head = 0; head < shape.kv_heads; ++head) {
          set_.kv_write(attention, view.block(position / 64, head), static_cast<int>(position % 64),
                        k.data() + head * shape.head_size, v.data() + head * shape.head_size);
        }
      }
    });
  }
  void swiglu(const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) override {
    launch([=, this] {
      begin(rows);
      for (int64_t row = 0; row < rows; ++row) {
        if (!set_.swiglu(here(gate_up) + 2 * row * n, n, n_padded, here(y) + row * n_padded)) here(bad)[row] = true;
      }
    });
  }
  void linear(const kernels::LinearCall& asked, int rows) override {
    launch([=, this] {
      begin(rows);
      kernels::LinearCall call = asked;
      const kernels::LinearShape& shape = *call.shape;
      call.weights = here(call.weights), call.bias = here(call.bias), call.y = here(call.y);
      call.x.operands = here(call.x.operands);
      std::vector<int8_t> q(static_cast<size_t>(rows * shape.k_padded));
      std::vector<float> scale(static_cast<size_t>(rows * shape.groups()));
      std::vector<int32_t> sum(scale.size());
      if (shape.numerics == numerics::Numerics::kInt8) {
        for (int64_t row = 0; row < rows; ++row) {
          set_.quantise(call.x.operands + row * shape.k_padded, shape.k_padded, shape.group,
                        q.data() + row * shape.k_padded, scale.data() + row * shape.groups(),
                        sum.data() + row * shape.groups());
        }
        call.x.q = q.data(), call.x.scale = scale.data(), call.x.sum = sum.data();
      }
      set_.linear(call, {0, shape.panels(), 0, rows});
    });
  }
  void attention(const kernels::AttentionShape& shape, const kernels::DeviceAttentionCall& asked) override {
    launch([=, this, runs = std::vector(asked.runs, asked.runs + asked.run_count)]() mutable {
      begin(asked.rows);
      std::vector<kernels::KvView> views;
      for (kernels::DeviceRun& run : runs) {
        // In a recording a run is one row, and its position now counts.
        if (run.row_end == run.row_begin + 1) {
          run.first_position = run.last_position = here(asked.positions)[run.row_begin];
          run.sequence = here(asked.sequences)[run.row_begin];
        }
        const auto sequence = static_cast<size_t>(run.sequence);
        if (sequence >= views.size()) views.resize(sequence + 1);
        views[sequence] = view_of(asked.kv, run.sequence);
      }
      std::vector<kernels::DeviceRun> true_runs = runs;
      std::erase_if(true_runs, [](const kernels::DeviceRun& run) { return run.first_position < 0; });
      ops::AttentionCall call;
      call.q = here(asked.q), call.positions = here(asked.positions);
      call.runs = true_runs;
      call.views = views.data();
      call.out = here(asked.out), call.out_stride = asked.out_stride;
      call.bad = here(asked.bad);
      ops::Attention::create(set_, shape, 1).value().run(pool_, call);
    });
  }
  void gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) override {
    launch([=, this] {
      begin(count);
      for (int64_t i = 0; i < count; ++i) {
        if (here(indices)[i] < 0) continue;
        std::copy_n(here(from) + int64_t{here(indices)[i]} * width, width, here(to) + i * width);
      }
    });
  }
  void draw(const float* logits, int count, int vocab, const kernels::DeviceDraw* draws,
            kernels::DeviceDrawn* drawn) override {
    launch([=, this] {
      begin(count);
      EADEM_CHECK(count <= max_draws_ && vocab == vocab_);
      for (int64_t i = 0; i < count; ++i) here(drawn)[i] = draw_one(here(logits) + i * vocab, here(draws)[i]);
    });
  }

 protected:
  // Multiplies the outputs of a call.
  static void scale(const kernels::LinearCall& call, int rows, float by) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int n = 0; n < call.shape->n; ++n) here(call.y)[row * call.y_stride + n] *= by;
    }
  }

  template <class T>
  static T* here(T* pointer) {
    return moved(pointer, -kAway);
  }
  // Runs an op, and keeps it where ops are recorded. `op` calls begin() first.
  void launch(std::function<void()> op) {
    const std::lock_guard lock(queue_mutex_);
    op();
    if (recording_ != nullptr) recording_->push_back(std::move(op));
  }
  void begin(int rows) {
    EADEM_CHECK(rows <= max_rows_);
    ++calls_;
  }

 private:
  static constexpr intptr_t kAway = intptr_t{1} << 60;

  template <class T>
  static T* moved(T* pointer, intptr_t by) {
    return pointer == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<intptr_t>(pointer) + by);
  }

  kernels::KvView view_of(const kernels::DeviceKv& kv, int sequence) const {
    return {here(kv.base), here(kv.tables) + sequence * kv.table_stride, kv.block_stride, kv.head_stride};
  }

  kernels::DeviceDrawn draw_one(const float* logits, const kernels::DeviceDraw& asked) {
    kernels::DeviceDrawn drawn{};
    SamplingParams params;
    params.temperature = asked.temperature, params.top_p = asked.top_p, params.min_p = asked.min_p;
    params.top_k = asked.top_k;
    sampler::Draw draw;
    draw.logits = logits;
    draw.params = &params;
    draw.seed = asked.seed, draw.position = asked.position, draw.forced = asked.forced;
    draw.logprobs = 0;
    const auto result = sampler_->draw(draw);
    drawn.token = -1;
    if (!result.ok()) return drawn;
    drawn.token = result.value().token;
    drawn.logit = logits[drawn.token];
    const kernels::LogSum sum = set_.log_sum(logits, vocab_);
    drawn.max = sum.max, drawn.sum = sum.sum;
    std::vector<sampler::Candidate> top;
    if (asked.top > 0) sampler::first_k({logits, static_cast<size_t>(vocab_)}, asked.top, top);
    sampler::sort_candidates(top);
    for (size_t i = 0; i < kernels::kDeviceTop; ++i) {
      drawn.top_tokens[i] = i < top.size() ? top[i].token : -1;
      drawn.top_logits[i] = i < top.size() ? top[i].logit : 0.0f;
    }
    return drawn;
  }

  size_t memory_, used_ = 0;
  kernels::DeviceFacts facts_;
  const kernels::KernelSet& set_;
  ThreadPool pool_;
  uint64_t calls_ = 0;
  std::mutex download_mutex_;
  std::recursive_mutex queue_mutex_;
  std::map<kernels::ReplayKey, std::vector<std::function<void()>>> recordings_;
  std::vector<std::function<void()>>* recording_ = nullptr;
  uint64_t replays_ = 0;
  int max_rows_ = 0, max_draws_ = 0, vocab_ = 0;
  std::optional<sampler::Sampler> sampler_;
};

}  // namespace eadem::testing
