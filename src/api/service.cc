#include "eadem/service.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "api/answer.h"
#include "core/result.h"

namespace eadem {
namespace {

struct Asked {
  uint64_t ticket = 0;
  Request request;
  Callbacks callbacks;
};

// What other threads left for the service's own.
struct Inbox {
  std::vector<Asked> asked;
  std::set<uint64_t> cancelled;
};

int sequences_of(const Request& request) { return std::clamp(request.sampling.n, 1, 1024); }

// The answers of a request that the engine never saw.
std::vector<Completion> without_tokens(const Request& request, FinishReason reason, const std::string& error) {
  const uint64_t seed = request.sampling.seed ? *request.sampling.seed : api::random_seed();
  std::vector<Completion> answers(static_cast<size_t>(sequences_of(request)));
  for (size_t i = 0; i < answers.size(); ++i) {
    answers[i].index = static_cast<int>(i);
    answers[i].seed = api::seed_of_answer(seed, answers[i].index);
    answers[i].finish_reason = reason;
    answers[i].error = error;
  }
  return answers;
}

}  // namespace

struct Service::State {
  State(Engine opened, int limit) : engine(std::move(opened)), max_waiting(limit) {
    stats = snapshot(engine);
    thread = std::thread([this] { work(); });
  }
  ~State();

  // The service's own thread.
  void work();
  void await_step();
  void cancel_all(const std::set<uint64_t>& cancelled);
  bool take(Inbox& taken);
  void begin(Asked asked);
  Callbacks followed(uint64_t ticket, Callbacks callbacks);
  void stop_all(Inbox taken);
  void publish();
  static ServiceStats snapshot(const Engine& engine);

  Engine engine;  // stepped by the service's thread alone
  const int max_waiting;

  mutable std::mutex mutex;
  std::condition_variable wake;
  // Guarded by the mutex.
  Inbox inbox;
  ServiceStats stats;  // of the last step
  uint64_t last_ticket = 0;
  std::unordered_set<uint64_t> open;  // tickets whose end the statistics do not know yet
  int waiting = 0;                    // requests taken that have not started
  int unheard = 0;                    // sequences of requests that the engine did not know at the last step
  bool draining = false, stopping = false;

  // Of the service's thread alone.
  std::unordered_map<uint64_t, Engine::Ticket> tickets;
  std::vector<uint64_t> ended;  // whose on_done has returned since the last publish()
  std::thread thread;
};

Service::State::~State() {
  {
    const std::lock_guard lock(mutex);
    draining = stopping = true;
  }
  wake.notify_one();
  thread.join();
}

ServiceStats Service::State::snapshot(const Engine& engine) {
  const Load load = engine.load();
  ServiceStats stats;
  stats.counters = engine.counters();
  stats.running = load.running;
  stats.waiting = load.waiting;
  stats.kv_blocks = load.kv_blocks;
  stats.kv_blocks_used = load.kv_blocks_used;
  stats.kv_blocks_evictable = load.kv_blocks_evictable;
  return stats;
}

void Service::State::work() {
  Inbox taken;
  // What arrives while a step is computed is in time for the next.
  for (await_step(); take(taken); await_step()) {
    for (Asked& asked : taken.asked) begin(std::move(asked));
    cancel_all(taken.cancelled);
    taken = {};
    engine.step();
    publish();
  }
  stop_all(std::move(taken));
}

// What is cancelled meanwhile need not wait for its end: a step of many rows takes long.
void Service::State::await_step() {
  while (!engine.wait()) {
    std::set<uint64_t> cancelled;
    {
      const std::lock_guard lock(mutex);
      // Those that the engine does not know yet are cancelled when it does.
      std::erase_if(inbox.cancelled,
                    [&](uint64_t ticket) { return tickets.contains(ticket) && cancelled.insert(ticket).second; });
    }
    cancel_all(cancelled);
    engine.settle();
    publish();
  }
}

void Service::State::cancel_all(const std::set<uint64_t>& cancelled) {
  for (const uint64_t ticket : cancelled) {
    const auto found = tickets.find(ticket);
    if (found != tickets.end()) engine.cancel(found->second);
  }
}

// Sleeps while there is nothing to do. False: the service ends.
bool Service::State::take(Inbox& taken) {
  std::unique_lock lock(mutex);
  wake.wait(lock, [this] { return stopping || !open.empty(); });
  std::swap(taken, inbox);
  return !stopping;
}

// Keeps count of a request. Callbacks run without the lock, so that they may submit and cancel.
Callbacks Service::State::followed(uint64_t ticket, Callbacks callbacks) {
  const auto leave_queue = [this, started = std::make_shared<bool>(false)] {
    if (std::exchange(*started, true)) return;
    const std::lock_guard lock(mutex);
    --waiting;
  };
  callbacks.on_start = [leave_queue, then = std::move(callbacks.on_start)] {
    leave_queue();
    if (then) then();
  };
  callbacks.on_done = [this, leave_queue, ticket,
                       then = std::move(callbacks.on_done)](std::vector<Completion> answers) {
    leave_queue();
    tickets.erase(ticket);
    if (then) then(std::move(answers));
    ended.push_back(ticket);
  };
  return callbacks;
}

void Service::State::begin(Asked asked) {
  const Callbacks callbacks = followed(asked.ticket, std::move(asked.callbacks));
  const auto known = engine.submit(asked.request, callbacks);
  if (known.ok()) {
    tickets.emplace(asked.ticket, known.value());
  } else {
    callbacks.on_done(without_tokens(asked.request, FinishReason::kError, known.error().message));
  }
}

void Service::State::stop_all(Inbox taken) {
  for (Asked& asked : taken.asked) {
    followed(asked.ticket, std::move(asked.callbacks))
        .on_done(without_tokens(asked.request, FinishReason::kCancelled, {}));
  }
  // By ticket, so that requests end in the order in which they came.
  std::vector<Engine::Ticket> running;
  for (const auto& entry : tickets) running.push_back(entry.second);
  std::sort(running.begin(), running.end());
  for (const Engine::Ticket ticket : running) engine.cancel(ticket);
  while (engine.step()) {
  }
}

// Whoever finds the service idle finds the ends of all its requests counted.
void Service::State::publish() {
  const ServiceStats now = snapshot(engine);
  const std::lock_guard lock(mutex);
  stats = now;
  for (const uint64_t ticket : ended) open.erase(ticket);
  ended.clear();
  unheard = 0;
  for (const Asked& asked : inbox.asked) unheard += sequences_of(asked.request);
}

Service::Service(std::unique_ptr<State> state) : state_(std::move(state)) {}
Service::~Service() = default;

Result<std::unique_ptr<Service>> Service::open(const ServiceOptions& options) {
  if (options.max_waiting < 1) {
    return Error{"max_waiting is " + std::to_string(options.max_waiting) + "; it must be at least 1"};
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.engine));
  try {
    return std::unique_ptr<Service>(new Service(std::make_unique<State>(std::move(engine), options.max_waiting)));
  } catch (const std::system_error&) {
    return Error{"the system does not start another thread: raise its limit, or lower --threads"};
  }
}

const Engine& Service::engine() const { return state_->engine; }
Result<void> Service::check(const Request& request) const { return state_->engine.check(request); }

Submission Service::submit(Request request, Callbacks callbacks) {
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->draining) return {Admission::kDraining, 0};
    if (state_->waiting >= state_->max_waiting) return {Admission::kQueueFull, 0};
    ticket = ++state_->last_ticket;
    ++state_->waiting;
    state_->unheard += sequences_of(request);
    state_->open.insert(ticket);
    state_->inbox.asked.push_back({ticket, std::move(request), std::move(callbacks)});
  }
  state_->wake.notify_one();
  return {Admission::kAccepted, ticket};
}

void Service::cancel(uint64_t ticket) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->open.contains(ticket)) return;
    state_->inbox.cancelled.insert(ticket);
  }
  state_->engine.wake();
}

void Service::drain() {
  const std::lock_guard lock(state_->mutex);
  state_->draining = true;
}

bool Service::idle() const {
  const std::lock_guard lock(state_->mutex);
  return state_->open.empty();
}

ServiceStats Service::stats() const {
  const std::lock_guard lock(state_->mutex);
  ServiceStats stats = state_->stats;
  stats.waiting += state_->unheard;
  return stats;
}

}  // namespace eadem
