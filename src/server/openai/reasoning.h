// Splits what a model thinks aloud (<think> ... </think>) from its answer, piece by piece. Pure text: nothing of HTTP.
//
//   ReasoningParser parser(prompt_opens_reasoning(rendered_prompt));
//   ReasoningDelta delta = parser.feed(piece);   // as often as there are pieces, cut anywhere
//   ReasoningDelta rest = parser.finish();       // once, at the end; `content` of both goes on to the ToolParser
//
// All deltas joined are the same for every way to cut the answer.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "eadem/request.h"

namespace eadem::server {

struct ReasoningDelta {
  std::string reasoning, content;
};

// Whether a chat template knows thinking at all: without it, <think> in an answer is plain text and needs no parser.
bool template_reasons(std::string_view chat_template);

// Whether a rendered prompt ends inside <think>: then the answer begins with thoughts and never says <think>. A block
// that the template closed itself (thinking switched off) does not count.
bool prompt_opens_reasoning(std::string_view prompt);

// The guide for an answer that may think first: free text up to </think>, then what `guide` says. `opened` as above;
// where it is false, the thoughts may be missing. Errors: a JSON schema that is no object.
Result<Guide> guide_after_reasoning(const Guide& guide, bool opened);

class ReasoningParser {
 public:
  // opened: the answer begins inside the thoughts. Otherwise they begin where the first text is <think>.
  explicit ReasoningParser(bool opened) : state_(opened ? State::kThoughts : State::kStart), trim_(opened) {}

  ReasoningDelta feed(std::string_view piece);
  // What was held back. An answer that ends inside the thoughts has no content.
  ReasoningDelta finish();

 private:
  enum class State : uint8_t { kStart, kThoughts, kContent };

  ReasoningDelta advance(bool last);
  bool begin(bool last);
  void think(bool last, ReasoningDelta& delta);

  State state_;
  bool trim_;         // white space at the beginning of the thoughts, or between them and the content, is dropped
  std::string held_;  // not decided yet
};

}  // namespace eadem::server
