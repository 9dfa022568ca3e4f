// A device with a queue and a memory of its own: the ops of a model's step, each over a whole batch. What a kernel set
// is to the CPU (kernel_set.h) this is to a GPU: the same trees, cut to suit it. Every pointer below is device memory
// unless it says "host". Work runs in the order of the calls; a call returns before its work is done unless it says
// that it waits. Ops never decline: what may be passed is written here, and ops/ checks it. Rows that are not in the
// call (padding, other sequences) are never read and never written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/result.h"
#include "kernels/kernel_set.h"

namespace eadem::kernels {

struct DeviceFacts {
  std::string name;          // e.g. "NVIDIA H200"
  std::string architecture;  // e.g. "sm_90"
  int processors = 0;        // streaming multiprocessors
  size_t memory = 0;         // bytes, all of it
  int driver = 0, runtime = 0;
};

// Keys and values of one layer, as KvView is for the CPU: sequence s's block b, KV head h lie at
// base + tables[s * table_stride + b] * block_stride + h * head_stride.
struct DeviceKv {
  std::byte* base = nullptr;
  const int32_t* tables = nullptr;  // [sequences][table_stride] block ids
  int64_t table_stride = 0;
  size_t block_stride = 0, head_stride = 0;
};

struct DeviceQkvCall {
  const float* qkv = nullptr;     // [rows][(heads + 2 kv_heads) * head_size], biases added
  const float* cosine = nullptr;  // [rows][rotary / 2]
  const float* sine = nullptr;
  const int64_t* positions = nullptr;  // [rows]
  const int32_t* sequences = nullptr;  // [rows] index into kv.tables
  DeviceKv kv;                         // where keys and values go
  uint16_t* q = nullptr;               // [rows][heads][head_padded] operands, padded with zeros
  bool* bad = nullptr;                 // [rows], set where an element is NaN
};

// Rows of a sequence that lie together in a batch. Host.
struct DeviceRun {
  int sequence = 0;
  int row_begin = 0, row_end = 0;
  int64_t first_position = 0, last_position = 0;
};

struct DeviceAttentionCall {
  const uint16_t* q = nullptr;
  const int64_t* positions = nullptr;
  const int32_t* sequences = nullptr;
  int rows = 0;
  // Host: positions ascend by one in each; together they cover rows 0 ... rows - 1.
  const DeviceRun* runs = nullptr;
  int run_count = 0;
  DeviceKv kv;
  uint16_t* out = nullptr;  // [rows][out_stride] operands: heads * head_size of them, the rest is left alone
  int64_t out_stride = 0;
  bool* bad = nullptr;  // [rows], set where a score passed its limit or a result is NaN
};

// One token to draw, or to judge where it is given; the part of sampling that needs nothing but the logits of its own
// row (no penalties, bias, masks, grammar). numerics/{order,sampling,rng}.h say what is drawn.
struct DeviceDraw {
  uint64_t seed = 0;
  int64_t position = 0;  // absolute position of the token drawn
  float temperature = 0.0f, top_p = 1.0f, min_p = 0.0f;
  int32_t top_k = 0;    // 0: off
  int32_t forced = -1;  // the token that is given; -1: draw one
  int32_t top = 0;      // how many of the total order to list: 0 ... kDeviceTop
};

inline constexpr int kDeviceTop = 20;

struct DeviceDrawn {
  int32_t token = -1;              // -1: a logit is NaN, or the largest is not finite
  float max = 0.0f, sum = 0.0f;    // LogSum of the raw logits
  float logit = 0.0f;              // raw, of the token
  int32_t top_tokens[kDeviceTop];  // the first of the total order over the raw logits; -1 where only -infinity is left
  float top_logits[kDeviceTop];
};

// In place of a token: the one that the draw before, of this index, gave (Device::embed).
constexpr int32_t token_of_draw(int index) { return -2 - index; }

// Of a recording: whose it is, and all that its ops' arguments depend on.
using ReplayKey = std::array<uint64_t, 4>;

// What a model will ask of a device.
struct DeviceNeeds {
  std::vector<LinearShape> linears;
  AttentionShape attention;
  int max_rows = 0;           // of a call of any op
  int64_t max_positions = 0;  // of a sequence
  int max_draws = 0;          // rows of logits of a draw
  int vocab = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  // Packs weights and tells the layout of KV blocks; linear_bytes, pack_operands, pack_int8, kv_bytes and kv_read run
  // on the host over host memory, whose bytes are then uploaded. Its other functions are null.
  virtual const KernelSet& packing() const = 0;
  // Kernels that were launched: the proof that the device computed.
  virtual uint64_t calls() const = 0;

  // ---- Memory. Zero-filled; an Error that says what was wanted and what is free where there is not enough.
  virtual Result<Buffer> allocate(size_t bytes, std::string_view what) = 0;
  // `from`: host memory, free to change once this returns.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  // Waits; `to`: host memory.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  // Memory of the host that copies need not wait for.
  virtual Result<Buffer> allocate_here(size_t bytes, std::string_view what) = 0;
  // A download that does not wait, `to` memory of allocate_here; what landed() waits for, also on another thread.
  virtual uint64_t fetch(void* to, const void* from, size_t bytes) = 0;
  virtual void landed(uint64_t fetched) = 0;
  virtual void clear(void* to, size_t bytes) = 0;
  virtual void wait() = 0;
  // Runs `ops`, which calls ops and clear() of this device alone, always the same with the same arguments for the same
  // key; so from the third time on a recording may run in its place. What the arguments point to may differ, but in
  // attention's calls each run has one row. Rows that only fill the recording have a token, an index and a position
  // below 0 and are a run of their own: nothing of theirs is read or written by ops that look at these.
  virtual void replay(const ReplayKey& key, const std::function<void()>& ops) = 0;
  // Working memory for ops like these; before any of them is called. Several models may come one after another.
  virtual Result<void> reserve(const DeviceNeeds& needs) = 0;

  // ---- Ops. The shapes are those of kernel_set.h.
  // h[row][0 .. n) = the float32 of the operands of table[tokens[row]]; table: [vocab][n] operands. token_of_draw(i)
  // stands for the token of drawn[i], so that a step can be queued before the one before it has drawn.
  virtual void embed(const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
                     float* h) = 0;
  virtual void rms_norm(const float* x, const float* weight, int rows, int n, int n_padded, float eps, uint16_t* y,
                        bool* bad) = 0;
  // The shape's q_norm and k_norm are device memory too.
  virtual void split_qkv(const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call,
                         int rows) = 0;
  virtual void swiglu(const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) = 0;
  // Rows 0 ... rows - 1 of the call; x.operands alone is read (int8 quantises it itself).
  virtual void linear(const LinearCall& call, int rows) = 0;
  // Whether a layer of n / 2 gates and then n / 2 ups, without bias, gives the operands of SwiGLU for so many rows in
  // one go; and such a call: call.y is not used. The bits are those of linear and swiglu.
  virtual bool fuses_swiglu(const LinearShape& shape, int rows) const = 0;
  virtual void linear_swiglu(const LinearCall& call, const SwigluCall& swiglu, int rows) = 0;
  virtual void attention(const AttentionShape& shape, const DeviceAttentionCall& call) = 0;
  // to[i] = from[indices[i]], rows of `width` operands.
  virtual void gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) = 0;
  // logits: [count][vocab]; draws, drawn: [count].
  virtual void draw(const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn) = 0;
};

// kFree: linear layers and attention as engines without a contract compute them, so that a row's bits depend on its
// batch; the device's packing set says so (KernelSet::free_order).
enum class SumOrder { kContract, kFree };

// The CUDA device of that number. An Error that says what is missing: this build has no CUDA, no driver, no such
// device, or one older than sm_90; for free order, no cuBLASLt.
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, SumOrder order = SumOrder::kContract);
// "CUDA 13.0, sm_90a", or why there is none.
std::string cuda_support();
// "cuBLASLt 13.0.2": what free order takes linear layers to; or why it cannot. Needs a device.
std::string cuda_free_order();

}  // namespace eadem::kernels
