#include "audit/black_box/event_stream.h"

namespace eadem::audit::black_box {
namespace {

constexpr size_t kMaxEvent = size_t{16} << 20;

}  // namespace

Result<void> EventStream::add(std::string_view piece,
                              const std::function<Result<void>(const std::string& data)>& event) {
  for (const char c : piece) {
    if (c != '\n') {
      if (line_.size() + data_.size() >= kMaxEvent) return Error{"an event of more than 16 MiB"};
      line_ += c;
      continue;
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    const std::string line = std::exchange(line_, {});
    if (line.empty()) {
      if (data_.empty()) continue;
      EADEM_RETURN_IF_ERROR(event(std::exchange(data_, {})));
    } else if (line.starts_with("data:")) {
      if (!data_.empty()) data_ += '\n';
      data_.append(line, line.starts_with("data: ") ? 6 : 5);
    }
  }
  return {};
}

}  // namespace eadem::audit::black_box
