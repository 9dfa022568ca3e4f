#include "engine/executor.h"

#include <utility>

#include "core/check.h"

namespace eadem::engine {

Executor::Executor() : thread_([this] { run(); }) {}

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Executor::launch(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    EADEM_CHECK(work && !work_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void Executor::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

bool Executor::finish_or_wake() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_ || woken_; });
    if (std::exchange(woken_, false) && work_) return false;
  }
  finish();
  return true;
}

void Executor::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void Executor::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || work_; });
    if (!work_) return;
    const std::function<void()>& work = work_;  // stays until it is done
    lock.unlock();
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace eadem::engine
