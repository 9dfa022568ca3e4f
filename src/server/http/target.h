// The parts of a request that are text: its target, its identity, its trace.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace eadem::server {

struct Target {
  std::string path;  // decoded, begins with /
  std::map<std::string, std::string> query;
};

// "/a%20b?x=1&y" or "http://host/a": none where it is no path, an escape is broken or a control character comes out.
std::optional<Target> parse_target(std::string_view target);

// X-Request-Id as it may be repeated in replies and logs: 1 to 128 letters, digits and ._:/+=@-, else a new one.
std::string request_id(std::string_view given);

// W3C trace context: what came in (or a new trace), with a span of our own.
struct Trace {
  std::string trace_id;  // 32 hexadecimal digits
  std::string parent;    // traceparent of the reply
};
Trace continue_trace(std::string_view traceparent);

// Random hexadecimal digits for ids; nothing of an answer depends on them.
std::string random_hex(size_t digits);

}  // namespace eadem::server
