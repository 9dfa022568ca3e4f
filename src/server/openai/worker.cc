#include "server/openai/worker.h"

#include <utility>

namespace eadem::server {

Worker::Worker() : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { run(queue); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->closed = true;
  }
  queue_->filled.notify_one();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Worker::post(std::function<void()> job) {
  bool sleeping = false;
  {
    const std::lock_guard lock(queue_->mutex);
    sleeping = queue_->jobs.empty();
    queue_->jobs.push_back(std::move(job));
  }
  if (sleeping) queue_->filled.notify_one();
}

void Worker::run(const std::shared_ptr<Queue>& queue) {
  std::deque<std::function<void()>> jobs;
  for (;;) {
    {
      std::unique_lock lock(queue->mutex);
      queue->filled.wait(lock, [&] { return queue->closed || !queue->jobs.empty(); });
      if (queue->jobs.empty()) return;
      std::swap(jobs, queue->jobs);
    }
    while (!jobs.empty()) {
      jobs.front()();
      jobs.pop_front();
    }
  }
}

}  // namespace eadem::server
