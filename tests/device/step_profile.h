// Where the time of a step goes, without a profiler: steps are queued so closely that the device never waits, once as
// they are and once without each of the ops; what an op costs inside the step is the difference. What the engine takes
// for a step beyond that is this machine's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device.h"
#include "model/model.h"

namespace eadem::testing {

// Another device that leaves out one kind of op.
class LeavingOut final : public kernels::Device {
 public:
  explicit LeavingOut(std::unique_ptr<kernels::Device> device) : device_(std::move(device)) {}

  // "": nothing; of linear layers "linear NxK" (outputs, padded inputs).
  void leave_out(std::string op) {
    left_out_ = std::move(op);
    ++version_;
  }
  // Of each op that was called since: how often.
  std::vector<std::pair<std::string, int>> seen;

  const kernels::DeviceFacts& facts() const override { return device_->facts(); }
  const kernels::KernelSet& packing() const override { return device_->packing(); }
  uint64_t calls() const override { return device_->calls(); }
  Result<Buffer> allocate(size_t bytes, std::string_view what) override { return device_->allocate(bytes, what); }
  void upload(void* to, const void* from, size_t bytes) override { device_->upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { device_->download(to, from, bytes); }
  Result<Buffer> allocate_here(size_t bytes, std::string_view what) override {
    return device_->allocate_here(bytes, what);
  }
  uint64_t fetch(void* to, const void* from, size_t bytes) override { return device_->fetch(to, from, bytes); }
  void landed(uint64_t fetched) override { device_->landed(fetched); }
  void clear(void* to, size_t bytes) override { device_->clear(to, bytes); }
  void wait() override { device_->wait(); }
  void replay(const kernels::ReplayKey& key, const std::function<void()>& ops) override {
    kernels::ReplayKey own = key;
    own[0] += version_ << 32;  // another recording for each op that is left out
    device_->replay(own, ops);
  }
  Result<void> reserve(const kernels::DeviceNeeds& needs) override { return device_->reserve(needs); }

  void embed(const uint16_t* table, const int32_t* tokens, const kernels::DeviceDrawn* drawn, int rows, int n,
             float* h) override {
    if (takes("embed")) device_->embed(table, tokens, drawn, rows, n, h);
  }
  void rms_norm(const float* x, const float* weight, int rows, int n, int n_padded, float eps, uint16_t* y,
                bool* bad) override {
    if (takes("rms_norm")) device_->rms_norm(x, weight, rows, n, n_padded, eps, y, bad);
  }
  void split_qkv(const kernels::QkvShape& shape, const kernels::AttentionShape& attention,
                 const kernels::DeviceQkvCall& call, int rows) override {
    if (takes("split_qkv")) device_->split_qkv(shape, attention, call, rows);
  }
  void swiglu(const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) override {
    if (takes("swiglu")) device_->swiglu(gate_up, rows, n, n_padded, y, bad);
  }
  void linear(const kernels::LinearCall& call, int rows) override {
    const std::string size = std::to_string(call.shape->n) + "x" + std::to_string(call.shape->k_padded);
    if (takes("linear " + size)) device_->linear(call, rows);
  }
  bool fuses = true;  // what the device fuses
  bool fuses_swiglu(const kernels::LinearShape& shape, int rows) const override {
    return fuses && device_->fuses_swiglu(shape, rows);
  }
  void linear_swiglu(const kernels::LinearCall& call, const kernels::SwigluCall& swiglu, int rows) override {
    if (takes("linear_swiglu")) device_->linear_swiglu(call, swiglu, rows);
  }
  void attention(const kernels::AttentionShape& shape, const kernels::DeviceAttentionCall& call) override {
    if (takes("attention")) device_->attention(shape, call);
  }
  void gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) override {
    if (takes("gather")) device_->gather(from, indices, count, width, to);
  }
  void draw(const float* logits, int count, int vocab, const kernels::DeviceDraw* draws,
            kernels::DeviceDrawn* drawn) override {
    if (takes("draw")) device_->draw(logits, count, vocab, draws, drawn);
  }

 private:
  bool takes(const std::string& op) {
    auto known = std::find_if(seen.begin(), seen.end(), [&](const auto& one) { return one.first == op; });
    if (known == seen.end()) known = seen.insert(seen.end(), {op, 0});
    ++known->second;
    return op != left_out_;
  }

  std::unique_ptr<kernels::Device> device_;
  std::string left_out_;
  uint64_t version_ = 0;
};

// A step of `sequences` sequences, the rows first ... last - 1 of each; all of them draw the likeliest token.
struct ProfiledStep {
  model::Batch batch;
  std::vector<std::vector<int32_t>> tables;

  ProfiledStep(int sequences, int64_t first, int64_t last, int vocab) {
    const int64_t blocks = (last + 63) / 64;
    for (int s = 0; s < sequences; ++s) {
      std::vector<int32_t>& table = tables.emplace_back();
      for (int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<int32_t>(s * blocks + b));
      for (int64_t p = first; p < last; ++p) {
        batch.rows.push_back({s, static_cast<int32_t>((s * 7919 + p * 31) % vocab), p});
      }
      batch.outputs.push_back(static_cast<int32_t>(batch.rows.size()) - 1);
      batch.draws.push_back({});
    }
    for (const auto& table : tables) batch.tables.push_back(table.data());
  }
  int blocks() const { return static_cast<int>(tables.size() * tables.front().size()); }
};

struct StepTimes {
  double device_ms = 0;  // a step among steps that are queued ahead; launch_ms where that is longer
  double alone_ms = 0;   // from the launch of a step until its results are here
  double launch_ms = 0;  // of that, until the launch is over
};

inline StepTimes time_steps(model::Model& model, model::KvPool& pool, const model::Batch& batch, int repeats) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  StepTimes times;
  for (int i = 0; i < 3; ++i) {  // a recording is made the second time
    model.forward(batch, pool);
    model.finish();
  }
  for (int i = 0; i < repeats; ++i) {
    const auto begin = Clock::now();
    model.forward(batch, pool);
    times.launch_ms += since(begin) / repeats;
    model.finish();
    times.alone_ms += since(begin) / repeats;
  }
  model.forward(batch, pool);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    model.forward(batch, pool);
    model.finish();
  }
  times.device_ms = since(begin) / repeats;
  model.finish();
  return times;
}

// One line of JSON for the step, one for each op that was left out.
inline void profile_step(model::Model& model, LeavingOut& device, const ProfiledStep& step, int repeats) {
  auto pool = model::KvPool::create(model.options().layout(), model.attention_shape(), model.config().layers,
                                    step.blocks(), &device);
  if (!pool.ok()) throw std::runtime_error(pool.error().message);
  device.leave_out("");
  device.seen.clear();
  const StepTimes whole = time_steps(model, pool.value(), step.batch, repeats);
  const auto ops = device.seen;
  const auto rows = static_cast<int>(step.batch.rows.size());
  std::printf(R"({"test":"step_profile","rows":%d,"sequences":%d,"last_position":%lld,"device_ms":%.3f,)"
              R"("alone_ms":%.3f,"launch_ms":%.3f})"
              "\n",
              rows, static_cast<int>(step.tables.size()), static_cast<long long>(step.batch.rows.back().position),
              whole.device_ms, whole.alone_ms, whole.launch_ms);
  const int calls_of_embed = ops.empty() ? 1 : std::max(ops.front().second, 1);  // once a step
  for (const auto& [op, calls] : ops) {
    device.leave_out(op);
    const StepTimes without = time_steps(model, pool.value(), step.batch, repeats);
    const double difference = whole.device_ms - without.device_ms;
    const int times = calls / calls_of_embed;
    std::printf(R"({"test":"step_profile","rows":%d,"op":"%s","calls":%d,"ms":%.3f,"us_each":%.2f})"
                "\n",
                rows, op.c_str(), times, difference, 1e3 * difference / times);
    std::fflush(stdout);
  }
  device.leave_out("");
}

}  // namespace eadem::testing
