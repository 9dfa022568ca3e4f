#include "server/openai/job.h"

#include <optional>
#include <utility>

namespace eadem::server {
namespace {

// What ends a reply although its answers are not whole.
std::optional<ApiError> fault_of(const std::vector<Completion>& answers) {
  for (const Completion& answer : answers) {
    if (answer.finish_reason == FinishReason::kError) return engine_failed(answer.error);
    if (answer.finish_reason == FinishReason::kTimeout) return deadline_passed();
    if (answer.finish_reason == FinishReason::kCancelled) return draining();
  }
  return std::nullopt;
}

}  // namespace

Job::Job(std::shared_ptr<Context> context, std::shared_ptr<Reply> reply, std::vector<Request> requests,
         Clock::time_point arrival)
    : context_(std::move(context)),
      reply_(std::move(reply)),
      requests_(std::move(requests)),
      arrival_(arrival),
      open_(requests_.size()) {
  for (const Request& request : requests_) prompt_tokens_ += static_cast<int64_t>(request.prompt_token_ids.size());
}

double Job::seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void Job::start() {
  reply_->on_disconnect([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self) self->context_->worker.post([self] { self->cancel(); });
  });
  context_->worker.post([self = shared_from_this()] { self->submit(); });
}

// All are taken, or none: tokens of the first wait behind this in the worker's queue.
void Job::submit() {
  if (over_) return;
  if (context_->closed) {
    over_ = true;
    return refuse(*context_, *reply_, draining());
  }
  for (size_t i = 0; i < requests_.size(); ++i) {
    const int index = static_cast<int>(i);
    Callbacks callbacks = callbacks_for(index);
    callbacks.on_done = [self = shared_from_this(), index](std::vector<Completion> answers) {
      self->context_->worker.post(
          [self, index, answers = std::move(answers)]() mutable { self->done(index, std::move(answers)); });
    };
    const Submission submission = context_->service.submit(requests_[i], std::move(callbacks));
    if (submission.admission == Admission::kAccepted) {
      tickets_.push_back(submission.ticket);
      continue;
    }
    over_ = true;
    cancel_tickets();
    refuse(*context_, *reply_, submission.admission == Admission::kQueueFull ? queue_full() : draining());
    return;
  }
  context_->metrics.received(static_cast<uint64_t>(prompt_tokens_));
  accepted();
}

Callbacks Job::callbacks_for(int) { return {}; }

void Job::done(int request, std::vector<Completion> answers) {
  --open_;
  // A request that was refused as a whole counts as refused alone.
  if (tickets_.size() == requests_.size()) {
    for (const Completion& answer : answers) {
      context_->metrics.finished(answer.finish_reason,
                                 {static_cast<uint64_t>(answer.cached_tokens), answer.tokens.size()},
                                 seconds_between(arrival_, Clock::now()));
    }
  }
  if (over_) return;
  if (const auto fault = context_->closed ? std::optional(draining()) : fault_of(answers)) {
    over_ = true;
    cancel_tickets();
    note(std::string(to_string(answers.front().finish_reason)));
    return fail(*fault);
  }
  cached_tokens_ += answers.front().cached_tokens;
  for (const Completion& answer : answers) {
    drafted_tokens_ += answer.drafted_tokens;
    accepted_tokens_ += answer.accepted_tokens;
  }
  if (finish_reason_.empty()) finish_reason_ = to_string(answers.front().finish_reason);
  answered(request, answers);
  if (open_ > 0) return;
  over_ = true;
  note(finish_reason_);
  finish();
}

// The client is gone.
void Job::cancel() {
  if (over_) return;
  over_ = true;
  note("cancelled");
  cancel_tickets();
}

void Job::cancel_tickets() {
  if (context_->closed) return;
  for (const uint64_t ticket : tickets_) context_->service.cancel(ticket);
}

void Job::note(std::string finish_reason) {
  reply_->note(
      {context_->model, prompt_tokens_, completion_tokens_, requests_.front().sampling.seed, std::move(finish_reason)});
}

}  // namespace eadem::server
