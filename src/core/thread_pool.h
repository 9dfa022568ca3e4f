// A static pool: the same threads for the life of an engine. Work comes as numbered tasks whose number depends on
// shapes alone; which worker takes which task cannot matter, since tasks write disjoint results and each task is whole
// sub-trees.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/buffer.h"

namespace eadem {

class ThreadPool {
 public:
  // `threads` >= 1 workers, the calling thread among them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // False where the system refused to start some of the workers; those that run do all the work.
  bool complete() const { return complete_; }
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(index, worker) for index in [0, count); worker in [0, threads()). Returns when all are done. Every worker
  // runs in the contract's floating-point environment. One caller at a time.
  void run(int count, const std::function<void(int index, int worker)>& task);

 private:
  int take(int worker);
  void work(int worker);
  void drain(int worker, int index);
  void finish(int tasks);
  void wait_for_workers();

  std::vector<std::thread> workers_;
  // The tasks of the run under way that nobody took: the first, and in the upper half the one past the last. Whoever
  // takes one may read task_, which stays until all that were taken are finished: a worker that comes late finds none
  // left, and the caller waits for no one who took none.
  alignas(64) std::atomic<uint64_t> work_{0};
  const std::function<void(int, int)>* task_ = nullptr;
  alignas(64) std::atomic<int> unfinished_{0};

  // Of those who sleep, which is rare while steps follow each other.
  alignas(64) std::atomic<int> sleepers_{0};  // workers
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  bool complete_ = true;
  std::exception_ptr failure_;
};

}  // namespace eadem
