// Requests to the engine that one HTTP request is made of, under way: submitted together, cancelled together, answered
// when all are done. Everything but the hand-over from the engine's thread runs on the context's worker, in order.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/openai/context.h"

namespace eadem::server {

class Job : public std::enable_shared_from_this<Job> {
 public:
  using Clock = std::chrono::steady_clock;

  // requests: at least one, each of which has passed Service::check.
  Job(std::shared_ptr<Context> context, std::shared_ptr<Reply> reply, std::vector<Request> requests,
      Clock::time_point arrival);
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // From a handler; returns at once.
  void start();

 protected:
  // All on the worker. Every request was accepted.
  virtual void accepted() {}
  // The answers of one request; may be taken.
  virtual void answered(int request, std::vector<Completion>& answers) = 0;
  // All are answered: ends the reply.
  virtual void finish() = 0;
  // Ends the reply with an error after acceptance.
  virtual void fail(const ApiError& error) { send_error(*reply_, error); }
  // Called on the engine's thread; on_done is the job's own.
  virtual Callbacks callbacks_for(int request);

  // Nothing more is written, or the engine may be gone.
  bool over() const { return over_ || context_->closed; }
  static double seconds_between(Clock::time_point from, Clock::time_point to);

  std::shared_ptr<Context> context_;
  std::shared_ptr<Reply> reply_;
  std::vector<Request> requests_;
  Clock::time_point arrival_;
  int64_t prompt_tokens_ = 0, completion_tokens_ = 0, cached_tokens_ = 0;
  int64_t drafted_tokens_ = 0, accepted_tokens_ = 0;

 private:
  void submit();
  void done(int request, std::vector<Completion> answers);
  void cancel();
  void cancel_tickets();
  void note(std::string finish_reason);

  std::vector<uint64_t> tickets_;
  size_t open_;        // requests that are not answered
  bool over_ = false;  // the reply has ended, or its client is gone
  std::string finish_reason_;
};

}  // namespace eadem::server
