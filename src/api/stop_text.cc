#include "api/stop_text.h"

#include <algorithm>
#include <utility>

namespace eadem::api {

StopText::StopText(std::vector<std::string> stops, bool include) : stops_(std::move(stops)), include_(include) {}

// The longest end of the held text that begins some stop string.
size_t StopText::held_length() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > longest; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) longest = length;
    }
  }
  return longest;
}

std::string StopText::feed(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  // The stop string that is complete first ends the answer; of those that end together, the one that began first.
  size_t end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    const size_t stop_end = at + stop.size();
    if (end == std::string::npos || stop_end < end || (stop_end == end && at < begin)) end = stop_end, begin = at;
  }
  if (end != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, include_ ? end : begin);
  }
  const size_t shown = held_.size() - held_length();
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string StopText::flush() { return std::exchange(held_, {}); }

}  // namespace eadem::api
