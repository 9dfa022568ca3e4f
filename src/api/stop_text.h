// Stop strings over streamed text: what may be shown, and where the answer ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace eadem::api {

class StopText {
 public:
  // include: keep the stop string itself in the text.
  StopText(std::vector<std::string> stops, bool include);

  // Takes the next piece; returns what can be shown now. Text that may be the beginning of a stop string is held back.
  std::string feed(std::string_view piece);
  // What was held back, at the end of an answer that no stop string ended.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  size_t held_length() const;

  std::vector<std::string> stops_;
  bool include_;
  bool stopped_ = false;
  std::string held_;
};

}  // namespace eadem::api
