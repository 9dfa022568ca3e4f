// Stop strings over pieces: the text before the first stop string, whatever the cuts.
#include <gtest/gtest.h>

#include "api/stop_text.h"

namespace eadem::api {
namespace {

struct Shown {
  std::string text;
  bool stopped;
  bool operator==(const Shown&) const = default;
};

Shown show(const std::string& text, const std::vector<std::string>& stops, size_t piece, bool include = false) {
  StopText stop(stops, include);
  std::string shown;
  for (size_t at = 0; at < text.size() && !stop.stopped(); at += piece) shown += stop.feed(text.substr(at, piece));
  if (!stop.stopped()) shown += stop.flush();
  return {shown, stop.stopped()};
}

TEST(StopText, AnyCutGivesTheSameText) {
  for (const size_t piece : {1, 2, 3, 5, 100}) {
    EXPECT_EQ(show("one two three", {" three"}, piece), (Shown{"one two", true})) << piece;
    EXPECT_EQ(show("one two three", {"four"}, piece), (Shown{"one two three", false})) << piece;
    EXPECT_EQ(show("ababac", {"abac"}, piece), (Shown{"ab", true})) << piece;
    EXPECT_EQ(show("xx\n\nyy", {"\n\n"}, piece, true), (Shown{"xx\n\n", true})) << piece;
    EXPECT_EQ(show("ends with a beginnin", {"beginning"}, piece), (Shown{"ends with a beginnin", false})) << piece;
    EXPECT_EQ(show("", {"x"}, piece), (Shown{"", false}));
  }
}

TEST(StopText, TheStopThatIsCompleteFirstEnds) {
  for (const size_t piece : {1, 2, 4, 100}) {
    EXPECT_EQ(show("abcdef", {"bcde", "cd"}, piece), (Shown{"ab", true})) << piece;
    EXPECT_EQ(show("abcdef", {"cd", "abcd"}, piece), (Shown{"", true})) << piece;
  }
}

TEST(StopText, HoldsBackOnlyWhatMayBeAStop) {
  StopText stop({"STOP"}, false);
  EXPECT_EQ(stop.feed("go on ST"), "go on ");
  EXPECT_EQ(stop.feed("ART"), "START");
  EXPECT_EQ(stop.feed("STO"), "");
  EXPECT_EQ(stop.flush(), "STO");
}

}  // namespace
}  // namespace eadem::api
