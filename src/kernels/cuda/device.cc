#include "kernels/cuda/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/free/device.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/rows/rows.h"
#include "kernels/cuda/sampler/draw.h"

namespace eadem::kernels {
namespace cuda {
namespace {

// A call that fails here, unlike one that wants memory, is a bug of a kernel or a broken device: nothing that it
// computed can be trusted.
void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "eadem: the CUDA device failed in %s: %s\n", what, cudaGetErrorString(status));
  std::abort();
}

std::string mebibytes(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

bool same(const AttentionShape& a, const AttentionShape& b) {
  return a.numerics == b.numerics && a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_size == b.head_size &&
         a.window == b.window;
}

void free_memory(void*, std::byte* pointer, size_t) { cudaFree(pointer); }

Result<DeviceFacts> facts_of(int ordinal) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0) {
    const std::string reason = found != cudaSuccess ? cudaGetErrorString(found) : "it finds none";
    return Error{"device 'cuda': no CUDA device can be used (" + reason + "): it needs a driver of CUDA 13 and a GPU"};
  }
  if (ordinal < 0 || ordinal >= count) {
    return Error{"device 'cuda:" + std::to_string(ordinal) + "': there are " + std::to_string(count) +
                 " CUDA devices, counted from 0"};
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.architecture = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  facts.processors = properties.multiProcessorCount;
  facts.memory = properties.totalGlobalMem;
  check(cudaDriverGetVersion(&facts.driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&facts.runtime), "cudaRuntimeGetVersion");
  if (facts.architecture != "sm_90") {
    return Error{"device 'cuda:" + std::to_string(ordinal) + "' is a " + facts.name + " (" + facts.architecture +
                 "); this program has kernels for sm_90 alone (H100, H200)"};
  }
  return facts;
}

}  // namespace

Result<void> CudaDevice::start() {
  EADEM_ASSIGN_OR_RETURN(facts_, facts_of(ordinal_));
  packing_ = {};
  packing_.name = "sm_90a";
  packing_.supported = [] { return true; };
  packing_.calls = &calls_;
  packing_.linear_bytes = linear_bytes;
  packing_.pack_operands = pack_operands;
  packing_.pack_int8 = pack_int8;
  packing_.kv_bytes = kv_bytes;
  packing_.kv_write = kv_write;
  packing_.kv_read = kv_read;
  enter();
  const cudaError_t status = cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return Error{"device 'cuda:" + std::to_string(ordinal_) + "' cannot be used: " + cudaGetErrorString(status)};
  }
  const auto create = [](cudaEvent_t& event) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  };
  std::for_each(free_.begin(), free_.end(), create);
  std::for_each(fetched_.begin(), fetched_.end(), create);
  EADEM_ASSIGN_OR_RETURN(up_, allocate_here(kSlots * kSlotBytes, "copies to the device"));
  EADEM_ASSIGN_OR_RETURN(down_, allocate_here(kSlotBytes, "copies from the device"));
  return {};
}

CudaDevice::~CudaDevice() {
  if (stream_ != nullptr) {
    enter();
    cudaStreamSynchronize(stream_);
    forget_recordings();
    cudaStreamDestroy(stream_);
  }
  const auto destroy = [](cudaEvent_t event) {
    if (event != nullptr) cudaEventDestroy(event);
  };
  std::for_each(free_.begin(), free_.end(), destroy);
  std::for_each(fetched_.begin(), fetched_.end(), destroy);
}

void CudaDevice::enter() const {
  static thread_local int current = -1;
  if (current == ordinal_) return;
  check(cudaSetDevice(ordinal_), "cudaSetDevice");
  current = ordinal_;
}

void CudaDevice::launched(const char* op) {
  check(cudaPeekAtLastError(), op);
  calls_.fetch_add(1, std::memory_order_relaxed);
}

// ---- Memory

Result<Buffer> CudaDevice::allocate(size_t bytes, std::string_view what) {
  if (bytes == 0) return Buffer();
  enter();
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) != cudaSuccess) {
    cudaGetLastError();
    size_t free_bytes = 0, all = 0;
    cudaMemGetInfo(&free_bytes, &all);
    return Error{"cannot allocate " + mebibytes(bytes) + " of device memory for " + std::string(what) + ": " +
                 mebibytes(free_bytes) + " of " + mebibytes(all) +
                 " are free; use a smaller model, context or pool (--kv-memory), or another device"};
  }
  clear(pointer, bytes);
  return Buffer::adopt(static_cast<std::byte*>(pointer), {free_memory, nullptr, bytes});
}

void CudaDevice::upload(void* to, const void* from, size_t bytes) {
  enter();
  const std::scoped_lock lock(queue_mutex_, upload_mutex_);
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kSlotBytes);
    const auto slot = static_cast<size_t>(next_slot_);
    next_slot_ = (next_slot_ + 1) % kSlots;
    check(cudaEventSynchronize(free_[slot]), "a copy to the device");
    std::byte* const pinned = up_.data() + slot * kSlotBytes;
    std::memcpy(pinned, static_cast<const std::byte*>(from) + done, part);
    check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, pinned, part, cudaMemcpyHostToDevice, stream_),
          "a copy to the device");
    check(cudaEventRecord(free_[slot], stream_), "cudaEventRecord");
    done += part;
  }
}

void CudaDevice::download(void* to, const void* from, size_t bytes) {
  enter();
  const std::lock_guard lock(download_mutex_);
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kSlotBytes);
    landed(fetch(down_.data(), static_cast<const std::byte*>(from) + done, part));
    std::memcpy(static_cast<std::byte*>(to) + done, down_.data(), part);
    done += part;
  }
}

Result<Buffer> CudaDevice::allocate_here(size_t bytes, std::string_view what) {
  enter();
  void* pointer = nullptr;
  if (cudaMallocHost(&pointer, bytes) != cudaSuccess) {
    cudaGetLastError();
    return Error{"cannot allocate " + mebibytes(bytes) + " of page-locked memory for " + std::string(what)};
  }
  std::memset(pointer, 0, bytes);
  const auto release = [](void*, std::byte* memory, size_t) { cudaFreeHost(memory); };
  return Buffer::adopt(static_cast<std::byte*>(pointer), {release, nullptr, bytes});
}

uint64_t CudaDevice::fetch(void* to, const void* from, size_t bytes) {
  enter();
  const std::lock_guard lock(queue_mutex_);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a copy from the device");
  check(cudaEventRecord(fetched_[++fetches_ % kFetches], stream_), "cudaEventRecord");
  return fetches_;
}

// Where its event has been taken by a later fetch it waits for that one, which is done no earlier.
void CudaDevice::landed(uint64_t fetched) {
  enter();
  check(cudaEventSynchronize(fetched_[fetched % kFetches]), "a step on the device");
}

void CudaDevice::clear(void* to, size_t bytes) {
  enter();
  const std::lock_guard lock(queue_mutex_);
  check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
}

void CudaDevice::wait() {
  enter();
  check(cudaStreamSynchronize(stream_), "a step on the device");
}

CudaDevice::Recording& CudaDevice::recording_of(const ReplayKey& key) {
  for (Recording& recording : recordings_) {
    if (recording.key == key) return recording;
  }
  if (recordings_.size() == kRecordings) {
    const auto older = [](const Recording& a, const Recording& b) { return a.last_used < b.last_used; };
    const auto oldest = std::min_element(recordings_.begin(), recordings_.end(), older);
    if (oldest->graph != nullptr) check(cudaGraphExecDestroy(oldest->graph), "cudaGraphExecDestroy");
    recordings_.erase(oldest);
  }
  recordings_.push_back({key, nullptr, 0, 0});
  return recordings_.back();
}

void CudaDevice::record(Recording& recording, const std::function<void()>& ops) {
  const uint64_t before = calls();
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  ops();
  check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&recording.graph, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  recording.calls = calls() - before;
  calls_ -= recording.calls;
}

void CudaDevice::replay(const ReplayKey& key, const std::function<void()>& ops) {
  enter();
  const std::lock_guard lock(queue_mutex_);
  const bool known = std::any_of(recordings_.begin(), recordings_.end(), [&](const auto& r) { return r.key == key; });
  Recording& recording = recording_of(key);
  recording.last_used = ++replays_;
  if (!known) return ops();
  if (recording.graph == nullptr) record(recording, ops);
  check(cudaGraphLaunch(recording.graph, stream_), "cudaGraphLaunch");
  calls_ += recording.calls;
}

void CudaDevice::forget_recordings() {
  for (const Recording& recording : recordings_) {
    if (recording.graph != nullptr) cudaGraphExecDestroy(recording.graph);
  }
  recordings_.clear();
}

Result<void> CudaDevice::grow(Buffer& buffer, size_t bytes) {
  if (buffer.size() >= bytes) return {};
  wait();
  buffer = Buffer();
  EADEM_ASSIGN_OR_RETURN(buffer, allocate(bytes, "an op's working memory"));
  return {};
}

CudaDevice::AttentionMemory* CudaDevice::memory_of(const AttentionShape& shape) {
  for (AttentionMemory& memory : attention_memory_) {
    if (same(memory.shape, shape)) return &memory;
  }
  return nullptr;
}

size_t CudaDevice::linear_needs(const LinearShape& shape, int max_rows) const {
  return linear_scratch_bytes(shape, max_rows);
}

size_t CudaDevice::attention_needs(const AttentionMemory& memory) const {
  return attention_scratch_bytes(facts_, memory.shape, memory.max_rows, memory.max_positions);
}

Result<void> CudaDevice::reserve(const DeviceNeeds& needs) {
  const std::lock_guard lock(queue_mutex_);
  forget_recordings();  // they know where working memory was
  size_t linear_bytes_wanted = 0;
  for (const LinearShape& shape : needs.linears) {
    linear_bytes_wanted = std::max(linear_bytes_wanted, linear_needs(shape, needs.max_rows));
  }
  EADEM_RETURN_IF_ERROR(grow(scratch_, linear_bytes_wanted));
  EADEM_RETURN_IF_ERROR(grow(draw_scratch_, draw_scratch_bytes(needs.max_draws, needs.vocab)));
  AttentionMemory* memory = memory_of(needs.attention);
  if (memory == nullptr) memory = &attention_memory_.emplace_back();
  memory->shape = needs.attention;
  memory->max_rows = std::max(memory->max_rows, needs.max_rows);
  memory->max_positions = std::max(memory->max_positions, needs.max_positions);
  return grow(memory->scratch, attention_needs(*memory));
}

// ---- Ops

void CudaDevice::embed(const uint16_t* table, const int32_t* tokens, const DeviceDrawn* drawn, int rows, int n,
                       float* h) {
  enter();
  cuda::embed(stream_, table, tokens, drawn, rows, n, h);
  launched("embed");
}

void CudaDevice::rms_norm(const float* x, const float* weight, int rows, int n, int n_padded, float eps, uint16_t* y,
                          bool* bad) {
  enter();
  cuda::rms_norm(stream_, x, weight, rows, n, n_padded, eps, y, bad);
  launched("rms_norm");
}

void CudaDevice::split_qkv(const QkvShape& shape, const AttentionShape& attention, const DeviceQkvCall& call,
                           int rows) {
  enter();
  cuda::split_qkv(stream_, shape, attention, call, rows);
  launched("split_qkv");
}

void CudaDevice::swiglu(const float* gate_up, int rows, int n, int n_padded, uint16_t* y, bool* bad) {
  enter();
  cuda::swiglu(stream_, gate_up, rows, n, n_padded, y, bad);
  launched("swiglu");
}

void CudaDevice::linear(const LinearCall& call, int rows) {
  enter();
  EADEM_CHECK(rows >= 1 && call.y_stride >= call.shape->n);
  cuda::linear(stream_, facts_, call, rows, scratch_.data());
  launched("linear");
}

bool CudaDevice::fuses_swiglu(const LinearShape& shape, int rows) const {
  return cuda::fuses_swiglu(facts_, shape, rows);
}

void CudaDevice::linear_swiglu(const LinearCall& call, const SwigluCall& swiglu, int rows) {
  enter();
  cuda::linear_swiglu(stream_, facts_, call, swiglu, rows);
  launched("linear_swiglu");
}

void CudaDevice::attention(const AttentionShape& shape, const DeviceAttentionCall& call) {
  enter();
  AttentionMemory* const memory = memory_of(shape);
  EADEM_CHECK(memory != nullptr && call.rows <= memory->max_rows);
  cuda::attention(stream_, facts_, shape, call, memory->max_rows, memory->max_positions, memory->scratch.data());
  launched("attention");
}

void CudaDevice::gather(const uint16_t* from, const int32_t* indices, int count, int width, uint16_t* to) {
  if (count == 0) return;
  enter();
  cuda::gather(stream_, from, indices, count, width, to);
  launched("gather");
}

void CudaDevice::draw(const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn) {
  enter();
  cuda::draw(stream_, logits, count, vocab, draws, drawn, draw_scratch_.data());
  launched("draw");
}

}  // namespace cuda

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal, SumOrder order) {
  std::unique_ptr<cuda::CudaDevice> device;
  if (order == SumOrder::kFree) {
    device = std::make_unique<cuda::FreeOrderDevice>(ordinal);
  } else {
    device = std::make_unique<cuda::CudaDevice>(ordinal);
  }
  EADEM_RETURN_IF_ERROR(device->start());
  return std::unique_ptr<Device>(std::move(device));
}

std::string cuda_free_order() {
  const auto library = cuda::CublasLt::open();
  return library.ok() ? "cuBLASLt " + library.value()->version() : "none: " + library.error().message;
}

std::string cuda_support() {
  return "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." + std::to_string(CUDART_VERSION % 1000 / 10) +
         ", kernels for sm_90a";
}

}  // namespace eadem::kernels
