// How fast an engine answers: one timed run of like requests, begun together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "eadem/engine.h"

namespace eadem::audit {

struct Workload {
  int batch = 4;            // requests at once
  int prompt_tokens = 256;  // of each, spread over the vocabulary, others for each request, so that no prefix is shared
  int max_tokens = 32;      // drawn after each, at least 2, whatever they are
};

// Seconds from the start to each token of each request, and the tokens: [batch][max_tokens].
struct RunTimes {
  std::vector<std::vector<double>> seconds;
  std::vector<std::vector<int32_t>> tokens;
};

// Greedy answers. goes_on: asked at each token; false ends the run with the error "interrupted".
Result<RunTimes> time_run(Engine& engine, const Workload& workload, const std::function<bool()>& goes_on);

// What a run comes to. Prefill ends, and decoding begins, when all requests have their first token.
struct Speeds {
  double first_token = 0.0;                     // seconds, mean over requests
  double prefill = 0.0;                         // prompt tokens per second
  double decode = 0.0;                          // drawn tokens per second
  double between_p50 = 0.0, between_p99 = 0.0;  // seconds between tokens of a request, while decoding
};
Speeds speeds_of(const RunTimes& run, const Workload& workload);

// Bytes that a process of its own needs for this engine and one such run. To be called before this process has threads.
struct MemoryUse {
  uint64_t peak_resident = 0, weight_bytes = 0, kv_bytes = 0;
  int64_t kv_blocks = 0;
};
Result<MemoryUse> memory_of(const EngineOptions& options, const Workload& workload);

// How busy a machine is with other work: from when it was made to a call, the share of all CPU time that went to
// others.
class LoadWatch {
 public:
  LoadWatch();
  double others() const;  // 0 ... 1; 0 where the system does not tell
  // Load average of the last minute, below zero where the system does not tell.
  static double load_average();

 private:
  struct Times {
    double all = 0.0, busy = 0.0, own = 0.0;  // seconds of CPU time
  };
  static Times read();
  Times start_;
};

}  // namespace eadem::audit
