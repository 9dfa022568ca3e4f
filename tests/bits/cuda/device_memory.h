// Device memory for tests of CUDA kernels, and the skip where there is no device.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/check.h"
#include "kernels/device.h"

namespace eadem::test {

inline bool have_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

inline kernels::DeviceFacts device_facts() {
  kernels::DeviceFacts facts;
  int processors = 0;
  EADEM_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess);
  facts.processors = processors;
  return facts;
}

// Waits for the kernels before it; a fault of one is a failure here.
inline void finish_kernels() {
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t n) : n_(n) {
    EADEM_CHECK(cudaMalloc(&data_, n * sizeof(T) + 256) == cudaSuccess);
    EADEM_CHECK(cudaMemset(data_, 0, n * sizeof(T) + 256) == cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { put(host); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* get() const { return static_cast<T*>(data_); }
  void put(const std::vector<T>& host) {
    EADEM_CHECK(host.size() <= n_);
    EADEM_CHECK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  std::vector<T> host() const {
    std::vector<T> out(n_);
    const cudaError_t error = cudaMemcpy(out.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost);
    EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
    return out;
  }

 private:
  void* data_ = nullptr;
  size_t n_;
};

#define EADEM_NEEDS_DEVICE() \
  if (!eadem::test::have_device()) GTEST_SKIP() << "no CUDA device"

}  // namespace eadem::test
