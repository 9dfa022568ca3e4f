// The CUDA device: memory, copies, one stream, and the ops by the launchers of linear/, rows/, attention/ and sampler/.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// The contract's device. free/device.h has what differs in free order.
class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}
  // Before anything else. An Error: see open_cuda_device.
  virtual Result<void> start();
  ~CudaDevice() override;

  const DeviceFacts& facts() const override { return facts_; }
  const KernelSet& packing() const override { return packing_; }
  uint64_t calls() const override { return calls_.load(std::memory_order_relaxed); }

  Result<Buffer> allocate(size_t bytes, std::string_view what) override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  Result<Buffer> allocate_here(size_t bytes, std::string_view what) override;
  uint64_t fetch(void* to, const void* from, size_t bytes) override;
  void landed(uint64_t fetched) override;
  void clear(void* to, size_t bytes) override;
  void wait() override;
  void replay(const ReplayKey& key, const std::function<void()>& ops) override;
  Result<void> reserve(const DeviceNeeds& needs) override;

  void embed(const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
             float* h) override;
  void rms_norm(const float* x, const float* weight, int rows, int n, int n_padded, float eps, uint16_t* y,
                bool* bad) override;
  void split_qkv(const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call, int rows) override;
  void swiglu(const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) override;
  void linear(const LinearCall& call, int rows) override;
  bool fuses_swiglu(const LinearShape& shape, int rows) const override;
  void linear_swiglu(const LinearCall& call, const SwigluCall& swiglu, int rows) override;
  void attention(const AttentionShape& shape, const DeviceAttentionCall& call) override;
  void gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) override;
  void draw(const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn) override;

 protected:
  // Attention's working memory for one shape.
  struct AttentionMemory {
    AttentionShape shape;
    int max_rows = 0;
    int64_t max_positions = 0;
    Buffer scratch;
  };

  // Makes this device the calling thread's.
  void enter() const;
  // An op was launched.
  void launched(const char* op);
  // Null where none was reserved.
  AttentionMemory* memory_of(const AttentionShape& shape);
  cudaStream_t stream() const { return stream_; }
  // Bytes of working memory.
  virtual size_t linear_needs(const LinearShape& shape, int max_rows) const;
  virtual size_t attention_needs(const AttentionMemory& memory) const;

  KernelSet packing_;

 private:
  struct Recording {
    ReplayKey key{};
    cudaGraphExec_t graph = nullptr;  // null: its ops ran once, so that all that is loaded late is there
    uint64_t calls = 0, last_used = 0;
  };

  Recording& recording_of(const ReplayKey& key);
  void record(Recording& recording, const std::function<void()>& ops);
  void forget_recordings();
  Result<void> grow(Buffer& buffer, size_t bytes);

  static constexpr size_t kRecordings = 96;
  static constexpr int kSlots = 4;
  static constexpr size_t kFetches = 8;
  static constexpr size_t kSlotBytes = size_t{8} << 20;

  int ordinal_;
  DeviceFacts facts_;
  std::atomic<uint64_t> calls_{0};
  cudaStream_t stream_ = nullptr;
  // Nothing else may enter the stream while ops are recorded.
  std::recursive_mutex queue_mutex_;
  std::mutex upload_mutex_, download_mutex_;
  Buffer up_, down_;  // of the host: kSlots slots; one
  std::array<cudaEvent_t, kSlots> free_{};
  int next_slot_ = 0;
  std::array<cudaEvent_t, kFetches> fetched_{};  // of fetch number i: element i % kFetches
  uint64_t fetches_ = 0;
  Buffer scratch_, draw_scratch_;
  std::vector<AttentionMemory> attention_memory_;
  std::vector<Recording> recordings_;
  uint64_t replays_ = 0;
};

}  // namespace eadem::kernels::cuda
