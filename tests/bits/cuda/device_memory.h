// Device memory for tests of CUDA kernels.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/device.h"

namespace eadem::test {

inline void cuda_ok(cudaError_t status) {
  if (status == cudaSuccess) return;
  ADD_FAILURE() << cudaGetErrorString(status);
  std::exit(1);  // nothing after a fault of the device means anything
}

inline kernels::DeviceFacts device_facts() {
  kernels::DeviceFacts facts;
  cuda_ok(cudaDeviceGetAttribute(&facts.processors, cudaDevAttrMultiProcessorCount, 0));
  return facts;
}

// Waits for the kernels before it.
inline void finish_kernels() { cuda_ok(cudaDeviceSynchronize()); }

struct Launched {
  dim3 blocks;
  unsigned threads;
};

// The kernels that `call` launches, in order: which of an op's paths it takes. They do not run.
inline std::vector<Launched> launched_by(const std::function<void(cudaStream_t)>& call) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cuda_ok(cudaStreamCreate(&stream));
  cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  call(stream);
  cuda_ok(cudaStreamEndCapture(stream, &graph));
  size_t count = 0;
  cuda_ok(cudaGraphGetNodes(graph, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) cuda_ok(cudaGraphGetNodes(graph, nodes.data(), &count));
  std::vector<Launched> launched;
  for (cudaGraphNode_t node : nodes) {
    cudaKernelNodeParams kernel = {};
    cuda_ok(cudaGraphKernelNodeGetParams(node, &kernel));
    launched.push_back({kernel.gridDim, kernel.blockDim.x});
  }
  cuda_ok(cudaGraphDestroy(graph));
  cuda_ok(cudaStreamDestroy(stream));
  return launched;
}

// Zero-filled, or a copy.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    cuda_ok(cudaMalloc(&data_, bytes() + kSlack));
    cuda_ok(cudaMemset(data_, 0, bytes() + kSlack));
  }
  explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) { put(from); }
  DeviceArray() = default;
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  // from: as many elements.
  void put(const std::vector<T>& from) const {
    cuda_ok(from.size() == size_ ? cudaMemcpy(data_, from.data(), bytes(), cudaMemcpyHostToDevice)
                                 : cudaErrorInvalidValue);
  }
  std::vector<T> host() const {
    std::vector<T> to(size_);
    cuda_ok(cudaMemcpy(to.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  static constexpr size_t kSlack = 256;  // an empty array has an address too

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace eadem::test
