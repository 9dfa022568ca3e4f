// Times of CUDA kernels: replays of a graph of many calls, the median counts.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "core/check.h"

namespace eadem::bench {

#define CHECK_CUDA(call) EADEM_CHECK((call) == cudaSuccess)

// Microseconds of one of `launches` calls in a graph; call(stream, i): the i-th.
inline double time_us(cudaStream_t stream, int launches, int replays,
                      const std::function<void(cudaStream_t, int)>& call) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < launches; ++i) call(stream, i);
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin, end;
  CHECK_CUDA(cudaEventCreate(&begin));
  CHECK_CUDA(cudaEventCreate(&end));
  CHECK_CUDA(cudaGraphLaunch(executable, stream));
  std::vector<float> times(static_cast<size_t>(replays));
  for (float& ms : times) {
    CHECK_CUDA(cudaEventRecord(begin, stream));
    CHECK_CUDA(cudaGraphLaunch(executable, stream));
    CHECK_CUDA(cudaEventRecord(end, stream));
    CHECK_CUDA(cudaEventSynchronize(end));
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
  }
  std::sort(times.begin(), times.end());
  CHECK_CUDA(cudaEventDestroy(begin));
  CHECK_CUDA(cudaEventDestroy(end));
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
  return static_cast<double>(times[times.size() / 2]) * 1e3 / launches;
}

}  // namespace eadem::bench
