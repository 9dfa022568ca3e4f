// The server's log: one JSON object a line, written by a thread of its own. Whoever logs never waits: lines that find
// the queue full, or that cannot be written (a full disk, a pipe that nobody reads), are dropped and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "server/http/wire.h"

namespace eadem::server {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" (or "warn"), "error" (or "critical"), in any case.
Result<LogLevel> parse_log_level(std::string_view name);

struct LogOptions {
  std::string file;  // appended to; empty: stderr
  LogLevel level = LogLevel::kInfo;
  bool requests = true;  // a line for each request
  bool prompts = false;  // with the body of the request, which holds its prompt
  size_t queue_bytes = size_t{4} << 20;
};

class Log {
 public:
  // Errors: the file cannot be opened.
  static Result<std::unique_ptr<Log>> open(const LogOptions& options);
  // Waits a second at most for what is queued.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // {"time", "level", "event"} and `fields`: JSON members without braces ("\"port\":80"), perhaps none.
  void event(LogLevel level, std::string_view event, std::string_view fields = {});
  void request(const RequestRecord& record);
  uint64_t dropped() const;

 private:
  struct State;
  explicit Log(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // the writer's too, which may hang in a write for ever
};

}  // namespace eadem::server
