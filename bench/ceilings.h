// What the machine can do, measured beside what the kernels do: one thread's float32 FMA rate and its read bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>

namespace eadem::bench {

// Lanes of the widest FMA that this machine has (16, 8 or 4).
int fma_lanes();
// Runs `steps` times 16 independent vector FMAs of `lanes` lanes (at most fma_lanes()); returns something made of all
// of them.
float run_fma(int lanes, int64_t steps);
// Reads `bytes` (a multiple of 1,024) once.
uint64_t read_all(const std::byte* data, size_t bytes);

}  // namespace eadem::bench
