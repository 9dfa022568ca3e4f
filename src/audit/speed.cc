#include "audit/speed.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "audit/statistics/paired.h"

namespace eadem::audit {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Request make_request(const Workload& workload, int64_t vocabulary, int which) {
  Request request;
  uint64_t state = static_cast<uint64_t>(which) + 1;
  for (int i = 0; i < workload.prompt_tokens; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    request.prompt_token_ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  request.sampling.max_tokens = workload.max_tokens;
  request.sampling.temperature = 0.0f;
  request.sampling.ignore_eos = true;
  return request;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// What the child tells through the pipe: a state, then bytes or an error's text.
struct Told {
  MemoryUse use;
  char error[1024] = {};
};

void measure_here(const EngineOptions& options, const Workload& workload, Told& told) {
  const auto fail = [&told](const std::string& message) { message.copy(told.error, sizeof(told.error) - 1); };
  auto engine = Engine::open(options);
  if (!engine.ok()) return fail(engine.error().message);
  const auto run = time_run(engine.value(), workload, [] { return true; });
  if (!run.ok()) return fail(run.error().message);
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const ModelInfo& info = engine.value().info();
  told.use = {static_cast<uint64_t>(usage.ru_maxrss) * 1024, info.weight_bytes, info.kv_bytes, info.kv_blocks};
}

bool write_all(int descriptor, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int descriptor, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::read(descriptor, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Result<RunTimes> time_run(Engine& engine, const Workload& workload, const std::function<bool()>& goes_on) {
  RunTimes run;
  const auto batch = static_cast<size_t>(workload.batch);
  run.seconds.resize(batch);
  run.tokens.resize(batch);
  bool stopped = false;
  std::vector<Request> requests;
  for (int i = 0; i < workload.batch; ++i) requests.push_back(make_request(workload, engine.info().vocab, i));
  const double start = now();
  for (size_t i = 0; i < batch; ++i) {
    Callbacks callbacks;
    callbacks.on_token = [&run, &stopped, &goes_on, i, start](int, const SampledToken& token, std::string_view) {
      run.seconds[i].push_back(now() - start);
      run.tokens[i].push_back(token.token);
      stopped = stopped || !goes_on();
      return !stopped;
    };
    const auto ticket = engine.submit(std::move(requests[i]), std::move(callbacks));
    if (!ticket.ok()) return Error{ticket.error()};
  }
  while (engine.step()) {
  }
  if (stopped) return Error{"interrupted"};
  for (const auto& tokens : run.tokens) {
    if (tokens.size() != static_cast<size_t>(workload.max_tokens))
      return Error{"a sequence failed: the model's arithmetic left its range"};
  }
  return run;
}

Speeds speeds_of(const RunTimes& run, const Workload& workload) {
  constexpr double kTick = 1e-9;  // no time is shorter than the clock's own step
  double all_first = kTick, last = 0.0, sum_first = 0.0;
  for (const auto& sequence : run.seconds) {
    all_first = std::max(all_first, sequence.front());
    last = std::max(last, sequence.back());
    sum_first += sequence.front();
  }
  std::vector<double> gaps;
  uint64_t drawn = 0;
  for (const auto& sequence : run.seconds) {
    for (size_t i = 1; i < sequence.size(); ++i) {
      if (sequence[i] <= all_first) continue;  // while others were still being read
      ++drawn;
      if (sequence[i - 1] >= all_first) gaps.push_back(std::max(kTick, sequence[i] - sequence[i - 1]));
    }
  }
  if (gaps.empty()) gaps.push_back(kTick);
  const auto batch = static_cast<double>(run.seconds.size());
  Speeds speeds;
  speeds.first_token = std::max(kTick, sum_first / batch);
  speeds.prefill = batch * workload.prompt_tokens / all_first;
  speeds.decode = std::max(1.0, static_cast<double>(drawn)) / std::max(kTick, last - all_first);
  speeds.between_p50 = statistics::quantile_of(gaps, 0.5);
  speeds.between_p99 = statistics::quantile_of(gaps, 0.99);
  return speeds;
}

Result<MemoryUse> memory_of(const EngineOptions& options, const Workload& workload) {
  int ends[2];
  if (::pipe(ends) != 0) return Error{"cannot start a process to measure memory: out of descriptors"};
  const pid_t child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return Error{"cannot start a process to measure memory: out of processes or memory"};
  }
  Told told;
  if (child == 0) {
    ::close(ends[0]);
    measure_here(options, workload, told);
    ::_exit(write_all(ends[1], &told, sizeof(told)) ? 0 : 1);
  }
  ::close(ends[1]);
  const bool whole = read_all(ends[0], &told, sizeof(told));
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!whole) return Error{"the process that measures memory ended too soon: is there enough memory?"};
  if (told.error[0] != '\0') return Error{told.error};
  return told.use;
}

LoadWatch::LoadWatch() : start_(read()) {}

LoadWatch::Times LoadWatch::read() {
  Times times;
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  double ticks = 0.0;
  const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  // user nice system idle iowait irq softirq steal; guests are counted in user.
  for (int field = 0; field < 8 && file >> ticks; ++field) {
    times.all += ticks / per_second;
    if (field != 3 && field != 4) times.busy += ticks / per_second;
  }
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  times.own = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  return times;
}

double LoadWatch::others() const {
  const Times end = read();
  const double all = end.all - start_.all;
  if (!(all > 0.0)) return 0.0;
  return std::clamp((end.busy - start_.busy - (end.own - start_.own)) / all, 0.0, 1.0);
}

double LoadWatch::load_average() {
  double load = -1.0;
  return ::getloadavg(&load, 1) == 1 ? load : -1.0;
}

}  // namespace eadem::audit
