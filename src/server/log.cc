#include "server/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "server/http/response.h"

namespace eadem::server {
namespace {

constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
constexpr auto kLastWait = std::chrono::seconds(1);
constexpr size_t kMaxBody = size_t{16} << 10;  // of a request's body, where prompts are logged

// RFC 3339, UTC, milliseconds.
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = millis / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%s.%03dZ", day.data(), static_cast<int>(millis % 1000));
  return text.data();
}

std::string begin_line(LogLevel level, std::string_view event, std::chrono::system_clock::time_point time) {
  std::string line = "{\"time\":\"" + time_text(time) + "\",\"level\":\"";
  return line.append(kLevels[static_cast<size_t>(level)]).append("\",\"event\":").append(json_string(event));
}

void add(std::string& line, std::string_view name, std::string_view value) {
  if (!value.empty()) line.append(",\"").append(name).append("\":").append(json_string(value));
}

void add(std::string& line, std::string_view name, uint64_t value) {
  line.append(",\"").append(name).append("\":").append(std::to_string(value));
}

}  // namespace

Result<LogLevel> parse_log_level(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "warn") lower = "warning";
  if (lower == "critical") lower = "error";
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if (lower == kLevels[i]) return static_cast<LogLevel>(i);
  }
  return Error{"debug, info, warning or error"};
}

struct Log::State {
  explicit State(const LogOptions& log_options) : options(log_options) {}
  ~State() {
    if (descriptor > STDERR_FILENO) ::close(descriptor);
  }

  void push(std::string line) {
    line += '\n';
    const std::lock_guard lock(mutex);
    if (queued + line.size() > options.queue_bytes) {
      ++dropped;
      return;
    }
    queued += line.size();
    lines.push_back(std::move(line));
    wake.notify_one();
  }

  void run() {
    sigset_t pipe;  // that nobody reads any more: an error of the write, not the end of the program
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [&] { return stop || !lines.empty(); });
      if (lines.empty()) break;
      const std::string line = std::move(lines.front());
      lines.pop_front();
      lock.unlock();
      if (!write_line(line)) ++dropped;
      lock.lock();
      queued -= line.size();
    }
    done = true;
    wake.notify_all();
  }

  // False where the line could not be written whole. What was written of it is ended before the next.
  bool write_line(const std::string& line) {
    if (torn && ::write(descriptor, "\n", 1) != 1) return false;
    torn = false;
    for (size_t at = 0; at < line.size();) {
      const ssize_t wrote = ::write(descriptor, line.data() + at, line.size() - at);
      if (wrote > 0) {
        at += static_cast<size_t>(wrote);
      } else if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        pollfd ready{descriptor, POLLOUT, 0};
        ::poll(&ready, 1, 100);
      } else if (wrote == 0 || errno != EINTR) {
        torn = at > 0;
        return false;
      }
    }
    return true;
  }

  const LogOptions options;
  int descriptor = STDERR_FILENO;
  std::thread writer;
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::string> lines;
  size_t queued = 0;
  bool stop = false, done = false, torn = false;
  std::atomic<uint64_t> dropped{0};
};

Log::Log(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Log>> Log::open(const LogOptions& options) {
  auto state = std::make_shared<State>(options);
  if (!options.file.empty()) {
    state->descriptor = ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (state->descriptor < 0) {
      return Error{"--log-file " + options.file + ": cannot be opened: " + std::strerror(errno)};
    }
  }
  state->writer = std::thread([state] { state->run(); });
  return std::unique_ptr<Log>(new Log(std::move(state)));
}

Log::~Log() {
  std::unique_lock lock(state_->mutex);
  state_->stop = true;
  state_->wake.notify_all();
  const bool done = state_->wake.wait_for(lock, kLastWait, [&] { return state_->done; });
  lock.unlock();
  if (done) {
    state_->writer.join();
  } else {
    state_->writer.detach();  // it hangs in a write, and keeps its state alive
  }
}

void Log::event(LogLevel level, std::string_view event, std::string_view fields) {
  if (level < state_->options.level) return;
  std::string line = begin_line(level, event, std::chrono::system_clock::now());
  if (!fields.empty()) line.append(",").append(fields);
  state_->push(line += '}');
}

void Log::request(const RequestRecord& record) {
  const LogLevel level = record.status >= 500 ? LogLevel::kWarning : LogLevel::kInfo;
  if (!state_->options.requests || level < state_->options.level) return;
  std::string line = begin_line(level, "request", record.time);
  add(line, "request_id", record.request_id);
  add(line, "trace_id", record.trace_id);
  add(line, "remote", record.remote);
  add(line, "method", record.method);
  add(line, "path", record.path);
  add(line, "status", static_cast<uint64_t>(record.status));
  add(line, "bytes_in", record.bytes_in);
  add(line, "bytes_out", record.bytes_out);
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.6f", record.seconds);
  line.append(",\"seconds\":").append(seconds.data());
  const RequestFacts& facts = record.facts;
  add(line, "model", facts.model);
  if (facts.prompt_tokens >= 0) add(line, "prompt_tokens", static_cast<uint64_t>(facts.prompt_tokens));
  if (facts.completion_tokens >= 0) add(line, "completion_tokens", static_cast<uint64_t>(facts.completion_tokens));
  if (facts.seed) add(line, "seed", *facts.seed);
  add(line, "finish_reason", facts.finish_reason);
  if (record.status == 499) line += ",\"cancelled\":true";
  add(line, "fault", record.fault);
  if (state_->options.prompts) add(line, "body", std::string_view(record.body).substr(0, kMaxBody));
  state_->push(line += '}');
}

uint64_t Log::dropped() const { return state_->dropped; }

}  // namespace eadem::server
