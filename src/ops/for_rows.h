// Work on the rows of a batch, cut into tasks for a pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/thread_pool.h"

namespace eadem::ops {

// Elements a task should have at least: with fewer, handing it over costs more than the work.
inline constexpr int64_t kElementsPerTask = 2048;
// Tasks for each thread where there are rows enough: one that comes late leaves its share to others.
inline constexpr int kTasksPerThread = 8;

// work(begin, end, worker) for ranges of at most `most` rows, as many for each thread. elements: of a row.
template <class Work>
void for_row_ranges(ThreadPool& pool, int rows, int elements, int most, const Work& work) {
  const int threads = pool.threads();
  int tasks =
      static_cast<int>(std::min<int64_t>(int64_t{rows} * elements / kElementsPerTask, threads * kTasksPerThread));
  if (tasks > threads) tasks -= tasks % threads;
  tasks = std::clamp(tasks, 1, std::max(1, rows));
  const int per_task = std::min(most, (rows + tasks - 1) / tasks);
  const auto run = [&](int task, int worker) { work(task * per_task, std::min(rows, (task + 1) * per_task), worker); };
  pool.run((rows + per_task - 1) / per_task, std::cref(run));  // by reference, so that a step allocates nothing
}

template <class Work>
void for_rows(ThreadPool& pool, int rows, int elements, const Work& work) {
  for_row_ranges(pool, rows, elements, std::max(1, rows), [&](int begin, int end, int) {
    for (int row = begin; row < end; ++row) work(row);
  });
}

}  // namespace eadem::ops
