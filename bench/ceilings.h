// What the machine can do, measured beside what the kernels do: loops that do nothing but one kind of work, on one
// thread. Sustained rates, not data sheets: a machine that lowers its clock under wide vectors shows it here too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace eadem::bench {

inline constexpr int kChains = 16;  // independent accumulators of the vector loops: more than latency times units

// Lanes of the widest FMA that this machine has (16, 8 or 4).
int fma_lanes();
// Runs `steps` times kChains independent vector FMAs of `lanes` lanes (at most fma_lanes()); returns something made of
// all of them.
float run_fma(int lanes, int64_t steps);
// Reads `bytes` (a multiple of 1,024) once.
uint64_t read_all(const std::byte* data, size_t bytes);

// A kind of arithmetic and the loop that does nothing else.
struct Peak {
  std::string_view name;           // as the reports call it: "fma_fp32", "amx_bf16", ...
  std::string_view unit;           // "FLOP" or "OP"; a multiplication and an addition are two
  bool (*supported)();             // processor and system; may ask the system for AMX's state
  double (*operations_of_step)();  // operations of one step
  uint64_t (*run)(int64_t steps);  // on the calling thread; returns something made of all results
};

// Every kind that was compiled in, whether this machine has it or not.
std::span<const Peak> peaks();

}  // namespace eadem::bench
