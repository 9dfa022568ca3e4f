// Server-sent events, piece by piece.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace eadem::audit::black_box {

// Splits what comes into the data of events. Lines may end in LF or CRLF, comments and other fields than `data` are
// passed over, and several `data` lines of one event are joined by LF.
class EventStream {
 public:
  // Each event's data to `event`; its error ends the stream. An event may have at most 16 MiB.
  Result<void> add(std::string_view piece, const std::function<Result<void>(const std::string& data)>& event);
  // Whether an event began and did not end.
  bool open() const { return !line_.empty() || !data_.empty(); }

 private:
  std::string line_, data_;
};

}  // namespace eadem::audit::black_box
