// What a CUDA device's memory gives: the ceiling of kernels that read.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace eadem::bench {

// Reads `bytes` (a multiple of 16) once, with plain loads; *sink keeps the loads alive.
void read_all(cudaStream_t stream, const void* from, size_t bytes, int processors, unsigned* sink);

}  // namespace eadem::bench
