#include "core/thread_pool.h"

#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/fp_env.h"

namespace eadem {
namespace {

// Steps are short and follow each other closely: a worker looks for new work for some microseconds before it sleeps.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

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
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::drain(int worker) {
  try {
    for (int index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) (*task_)(index, worker);
  } catch (...) {
    // Out of memory, most likely. The others finish what they began; the caller of run() gets the first exception.
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    next_.store(count_, std::memory_order_relaxed);
  }
}

void ThreadPool::run(int count, const std::function<void(int, int)>& task) {
  if (count <= 0) return;
  const FpEnvironment environment;
  if (count == 1 || workers_.empty()) {
    for (int index = 0; index < count; ++index) task(index, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    task_ = &task;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  drain(0);
  for (int spin = 0; spin < kSpins && busy_.load(std::memory_order_acquire) != 0; ++spin) relax();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_.load(std::memory_order_acquire) == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void ThreadPool::work(int worker) {
  const FpEnvironment environment;
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) relax();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
      seen = generation_.load(std::memory_order_relaxed);
      if (stop_) return;
    }
    EADEM_CHECK(FpEnvironment::is_contract());
    drain(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }
}

}  // namespace eadem
