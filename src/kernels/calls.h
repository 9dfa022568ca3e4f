// The counter of kernels that ran in this translation unit, which is one kernel set.
#pragma once

#include <atomic>
#include <cstdint>

namespace eadem::kernels {
namespace {

std::atomic<uint64_t> calls{0};

[[gnu::always_inline]] inline void count_call() { calls.fetch_add(1, std::memory_order_relaxed); }

}  // namespace
}  // namespace eadem::kernels
