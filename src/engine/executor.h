// Computes one step at a time on a thread of its own, so that whoever launched it can do something else meanwhile. Of a
// step that a device computes it waits for the end.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace eadem::engine {

class Executor {
 public:
  // Throws std::system_error where the system starts no more threads.
  Executor();
  // Waits for what is under way.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Nothing is under way.
  void launch(std::function<void()> work);
  // Returns when it is done; what it threw is thrown here. Nothing to do where nothing is under way.
  void finish();
  // Likewise, true; or false as soon as someone calls wake(), or has called it since this was last asked.
  bool finish_or_wake();
  // From any thread.
  void wake();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // empty: nothing is under way
  std::exception_ptr failure_;
  bool stop_ = false, woken_ = false;
  std::thread thread_;
};

}  // namespace eadem::engine
