// One thread that runs what is posted to it, in order. Replies are rendered here, so that the engine's thread only
// hands over tokens, and everything about one reply happens in order without a lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace eadem::server {

class Worker {
 public:
  Worker();
  // Runs what was posted, then ends; from its own thread (the last job held the last reference) without waiting.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Any thread; never blocks for long.
  void post(std::function<void()> job);

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<std::function<void()>> jobs;
    bool closed = false;
  };
  static void run(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace eadem::server
