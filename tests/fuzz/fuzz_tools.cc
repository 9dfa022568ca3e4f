// Any bytes as an answer, cut anywhere: the parsers of thoughts and tools give what they give for the whole.
#include <string>

#include "core/check.h"
#include "server/openai/reasoning.h"
#include "server/openai/tools.h"

namespace {

using namespace eadem::server;

struct Found {
  std::string reasoning, content, calls;

  bool operator==(const Found&) const = default;
};

class Parsers {
 public:
  Parsers(ToolFormat format, const Tools& tools, bool opened) : reasoning_(opened), tools_(format, tools, "salt") {}

  void feed(std::string_view piece) { add(reasoning_.feed(piece)); }
  Found finish() {
    add(reasoning_.finish());
    add(tools_.finish());
    return found_;
  }

 private:
  void add(const ReasoningDelta& delta) {
    found_.reasoning += delta.reasoning;
    add(tools_.feed(delta.content));
  }
  void add(const ToolDelta& delta) {
    found_.content += delta.content;
    for (const ToolCall& call : delta.calls) found_.calls += call.id + call.name + call.arguments + "\n";
  }

  ReasoningParser reasoning_;
  ToolParser tools_;
  Found found_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  Tools tools;
  tools.tools = {{"f", "{}"}, {"now", "{}"}};
  tools.choice = Tools::Choice::kAuto;
  tools.parallel = data[0] % 2 == 0;
  const auto format = static_cast<ToolFormat>(data[0] / 2 % 3);
  const bool opened = data[0] / 6 % 2 == 1;
  const size_t step = 1 + data[1] % 32;
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  Parsers whole(format, tools, opened), cut(format, tools, opened);
  whole.feed(answer);
  for (size_t at = 0; at < answer.size(); at += step) cut.feed(answer.substr(at, step));
  EADEM_CHECK(whole.finish() == cut.finish());
  return 0;
}
