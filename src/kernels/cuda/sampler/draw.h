// Draws of a batch: numerics/{order,sampling,rng}.h over rows of logits in device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/device.h"

namespace eadem::kernels::cuda {

// Working memory for any call of at most `max_count` rows of `vocab` logits.
size_t draw_scratch_bytes(int max_count, int vocab);

// logits: [count][vocab]; draws, drawn: [count], device memory too. What runs follows from count and vocab alone, so
// that a call may be captured in a graph and replayed with other draws. scratch: 256-byte aligned, whatever it holds.
void draw(cudaStream_t stream, const float* logits, int count, int vocab, const DeviceDraw* draws, DeviceDrawn* drawn,
          void* scratch);

}  // namespace eadem::kernels::cuda
