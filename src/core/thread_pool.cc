#include "core/thread_pool.h"

#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/fp_env.h"

namespace eadem {
namespace {

// Who waits looks at full attention for some microseconds, as long as a step's work between two runs takes, then offers
// the processor to others between looks for about a millisecond, as long as an engine takes between two steps; then it
// sleeps. To wake a thread that sleeps costs tens of microseconds, a multiple of a small layer's time.
constexpr int kSpins = 500;
constexpr int kYields = 3000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// False: time to sleep.
template <class Seen>
bool look_for(const Seen& seen) {
  for (int i = 0; i < kSpins; ++i, relax()) {
    if (seen()) return true;
  }
  for (int i = 0; i < kYields; ++i, std::this_thread::yield()) {
    if (seen()) return true;
  }
  return false;
}

// The tasks [first, end) that nobody took yet, in one word.
constexpr uint64_t kFirst = 1, kEnd = uint64_t{1} << 32;
int first_of(uint64_t work) { return static_cast<int>(work & UINT32_MAX); }
int end_of(uint64_t work) { return static_cast<int>(work >> 32); }

}  // namespace

ThreadPool::ThreadPool(int threads) {
  EADEM_CHECK(threads >= 1);
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error&) {  // the system gives no more threads
    complete_ = false;
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

// A task that nobody took yet, or -1. Every other worker begins at the other end: as tasks are numbered along the rows
// of a batch, two threads meet in the middle, and each finds most of its rows in its own cache from op to op.
int ThreadPool::take(int worker) {
  const bool last = worker % 2 == 1;
  uint64_t work = work_;
  while (first_of(work) < end_of(work)) {
    if (work_.compare_exchange_weak(work, last ? work - kEnd : work + kFirst)) {
      return last ? end_of(work) - 1 : first_of(work);
    }
  }
  return -1;
}

// Task `index`, which was taken, and what else there is.
void ThreadPool::drain(int worker, int index) {
  int tasks = 0;
  try {
    for (; index >= 0; index = take(worker)) {
      ++tasks;
      (*task_)(index, worker);
    }
  } catch (...) {
    // Out of memory, most likely. The others finish what they began; the caller of run() gets the first exception.
    while (take(worker) >= 0) ++tasks;
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  if (tasks > 0) finish(tasks);
}

// Here, in run() and in work() each side writes its own word before it reads the other's, in one order that all agree
// on: whoever goes to sleep is seen, or sees that there is no need to.
void ThreadPool::finish(int tasks) {
  if (unfinished_.fetch_sub(tasks) != tasks || !caller_sleeps_) return;
  std::lock_guard lock(mutex_);
  done_.notify_one();
}

void ThreadPool::wait_for_workers() {
  const auto finished = [this] { return unfinished_ == 0; };
  if (look_for(finished)) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  done_.wait(lock, finished);
  caller_sleeps_ = false;
}

void ThreadPool::run(int count, const std::function<void(int, int)>& task) {
  if (count <= 0) return;
  const FpEnvironment environment;
  if (count == 1 || workers_.empty()) {
    for (int index = 0; index < count; ++index) task(index, 0);
    return;
  }
  task_ = &task;
  unfinished_ = count;
  work_ = kEnd * static_cast<uint64_t>(count);
  if (sleepers_ != 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  drain(0, take(0));
  wait_for_workers();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int worker) {
  const FpEnvironment environment;
  for (;;) {
    int index = -1;
    const auto seen = [&] { return (index = take(worker)) >= 0 || stop_; };
    if (!look_for(seen)) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, seen);
      --sleepers_;
    }
    if (index < 0) return;
    EADEM_CHECK(FpEnvironment::is_contract());
    drain(worker, index);
  }
}

}  // namespace eadem
