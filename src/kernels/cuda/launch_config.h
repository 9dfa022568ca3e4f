// How a kernel is launched.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace eadem::kernels::cuda {

// The kernel may come up while the one before it in the stream still runs: it must call wait_for_prerequisites before
// it touches what that one writes (launch_dependents lets the next one come up). cluster: blocks of a cluster.
class LaunchConfig {
 public:
  LaunchConfig(dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream, int cluster = 1) {
    attributes_[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[0].val.programmaticStreamSerializationAllowed = 1;
    attributes_[1].id = cudaLaunchAttributeClusterDimension;
    attributes_[1].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    config_.gridDim = grid;
    config_.blockDim = dim3(static_cast<unsigned>(threads));
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream;
    config_.attrs = attributes_;
    config_.numAttrs = cluster > 1 ? 2 : 1;
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  const cudaLaunchConfig_t* get() const { return &config_; }

 private:
  cudaLaunchAttribute attributes_[2] = {};
  cudaLaunchConfig_t config_ = {};
};

}  // namespace eadem::kernels::cuda
