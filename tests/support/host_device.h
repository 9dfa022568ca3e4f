// A device made of this machine's kernels, so that the path of a model on a device is tested where there is none. Its
// pointers are moved out of the address space: whoever takes one for the host's falls. Its ops run on a thread of its
// own, in their order: whoever takes a result before it is there gets another one.
#pragma once

#include <atomic>
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
#include "support/host_draw.h"
#include "support/work_queue.h"

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
    auto* const kept = new Kept{this, std::move(buffer)};
    // What is queued may still write there.
    const auto release = [](void* owner, std::byte*, size_t) {
      auto* const held = static_cast<Kept*>(owner);
      held->device->queue_.wait();
      delete held;
    };
    return Buffer::adopt(moved(pointer, kAway), {release, kept, bytes});
  }
  void upload(void* to, const void* from, size_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(from);
    queue_.add([=, this, copy = std::vector<std::byte>(begin, begin + bytes)] {
      std::memcpy(here(to), copy.data(), copy.size());
    });
  }
  void download(void* to, const void* from, size_t bytes) override { landed(fetch(to, from, bytes)); }
  Result<Buffer> allocate_here(size_t bytes, std::string_view what) override { return Buffer::allocate(bytes, what); }
  // Slow enough that whoever reads what is still under way is seen to.
  uint64_t fetch(void* to, const void* from, size_t bytes) override {
    return queue_.add([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::memcpy(to, here(from), bytes);
    });
  }
  void landed(uint64_t fetched) override { queue_.wait(fetched); }
  void clear(void* to, size_t bytes) override {
    launch([=] { std::memset(here(to), 0, bytes); });
  }
  void wait() override { queue_.wait(); }
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
    for (const auto& op : found->second) queue_.add(op);
  }
  uint64_t replays() const { return replays_; }
  Result<void> reserve(const kernels::DeviceNeeds& needs) override {
    queue_.wait();
    max_rows_ = needs.max_rows, max_draws_ = needs.max_draws;
    if (!sampler_ || vocab_ != needs.vocab) sampler_.emplace(set_, vocab_ = needs.vocab);
    return {};
  }

  void embed(const uint16_t* table, const int32_t* tokens, const kernels::DeviceDrawn* drawn, int rows, int n,
             float* h) override {
    launch([=, this] {
      begin(rows);
      for (int row = 0; row < rows; ++row) {
        int32_t token = here(tokens)[row];
        if (token < -1) token = drawn == nullptr ? -1 : here(drawn)[kernels::token_of_draw(token)].token;
        if (token < 0) continue;
        const uint16_t* const from = here(table) + int64_t{token} * n;
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
      evaluate(asked, rows, here(asked.y), asked.y_stride);
    });
  }
  // Of this machine's layers some rows or more, so that both ways are taken.
  bool fuses_swiglu(const kernels::LinearShape&, int rows) const override { return rows >= 5; }
  void linear_swiglu(const kernels::LinearCall& asked, const kernels::SwigluCall& swiglu, int rows) override {
    ++fused_;
    launch([=, this] {
      begin(rows);
      const int n = asked.shape->n / 2;
      std::vector<float> gate_up(static_cast<size_t>(rows) * 2 * static_cast<size_t>(n));
      evaluate(asked, rows, gate_up.data(), 2 * n);
      std::vector<uint16_t> y(static_cast<size_t>(n));
      for (int64_t row = 0; row < rows; ++row) {
        if (!set_.swiglu(gate_up.data() + 2 * row * n, n, n, y.data())) here(swiglu.bad)[row] = true;
        std::copy(y.begin(), y.end(), here(swiglu.y) + row * swiglu.y_stride);
      }
    });
  }
  uint64_t fused() const { return fused_; }
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
      for (int64_t i = 0; i < count; ++i) {
        here(drawn)[i] =
            draw_on_host(set_, *sampler_, {here(logits) + i * vocab, static_cast<size_t>(vocab)}, here(draws)[i]);
      }
    });
  }

 protected:
  // Multiplies the outputs of a call.
  void scale(const kernels::LinearCall& call, int rows, float by) {
    launch([=] {
      for (int64_t row = 0; row < rows; ++row) {
        for (int n = 0; n < call.shape->n; ++n) here(call.y)[row * call.y_stride + n] *= by;
      }
    });
  }

  template <class T>
  static T* here(T* pointer) {
    return moved(pointer, -kAway);
  }
  // Runs an op, and keeps it where ops are recorded. `op` calls begin() first.
  void launch(std::function<void()> op) {
    const std::lock_guard lock(queue_mutex_);
    queue_.add(op);
    if (recording_ != nullptr) recording_->push_back(std::move(op));
  }
  void begin(int rows) {
    EADEM_CHECK(rows <= max_rows_);
    ++calls_;
  }

 private:
  static constexpr intptr_t kAway = intptr_t{1} << 60;

  struct Kept {
    HostDevice* device;
    Buffer buffer;
  };

  template <class T>
  static T* moved(T* pointer, intptr_t by) {
    return pointer == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<intptr_t>(pointer) + by);
  }
  // y: of this machine.
  void evaluate(const kernels::LinearCall& asked, int rows, float* y, int64_t y_stride) {
    kernels::LinearCall call = asked;
    const kernels::LinearShape& shape = *call.shape;
    call.weights = here(call.weights), call.bias = here(call.bias);
    call.y = y, call.y_stride = y_stride;
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
  }

  kernels::KvView view_of(const kernels::DeviceKv& kv, int sequence) const {
    return {here(kv.base), here(kv.tables) + sequence * kv.table_stride, kv.block_stride, kv.head_stride};
  }

  size_t memory_, used_ = 0;
  kernels::DeviceFacts facts_;
  const kernels::KernelSet& set_;
  ThreadPool pool_;
  std::atomic<uint64_t> calls_{0};
  std::recursive_mutex queue_mutex_;
  std::map<kernels::ReplayKey, std::vector<std::function<void()>>> recordings_;
  std::vector<std::function<void()>>* recording_ = nullptr;
  uint64_t replays_ = 0, fused_ = 0;
  int max_rows_ = 0, max_draws_ = 0, vocab_ = 0;
  std::optional<sampler::Sampler> sampler_;
  WorkQueue queue_;  // the last member: what it runs uses all others
};

}  // namespace eadem::testing
