// An engine with a thread of its own: anyone may ask, from any thread, and answers come back as they are drawn. What a
// server is built on. The queue is bounded; nothing here can reach a result.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eadem/engine.h"

namespace eadem {

struct ServiceOptions {
  EngineOptions engine = {.async_scheduling = true};
  int max_waiting = 1024;  // requests taken but not yet running; more are refused
};

enum class Admission : uint8_t { kAccepted, kQueueFull, kDraining };

struct Submission {
  Admission admission = Admission::kAccepted;
  uint64_t ticket = 0;  // where accepted; never 0 then
};

// A moment of the service. All of one step, never half of two.
struct ServiceStats {
  Counters counters;
  int running = 0, waiting = 0;           // sequences; those of requests that are not begun yet wait
  int kv_blocks = 0, kv_blocks_used = 0;  // held by sequences that run
  int kv_blocks_evictable = 0;            // of the prefix cache alone
};

class Service {
 public:
  static Result<std::unique_ptr<Service>> open(const ServiceOptions& options);
  // Cancels what is under way: every on_done is called before this returns.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Constant and safe from every thread: info, identity, default_sampling, tokenize, detokenize, token_bytes,
  // render_chat. Never step, submit or cancel it.
  const Engine& engine() const;

  // Whether the engine could ever answer this request. Errors name the field. Any thread.
  Result<void> check(const Request& request) const;
  // Takes a request that passes check(). Callbacks run on the service's thread, in order: on_token for each token, then
  // on_done exactly once; they must be short and may call submit and cancel. Any thread.
  Submission submit(Request request, Callbacks callbacks);
  // Its answers end as kCancelled and its blocks are free at once, also where a long step is under way. Unknown or
  // done: nothing. Any thread.
  void cancel(uint64_t ticket);
  // From now on new requests are refused; those under way go on. Any thread.
  void drain();
  // Every request has ended, and stats() counts it.
  bool idle() const;
  ServiceStats stats() const;

 private:
  struct State;
  explicit Service(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace eadem
