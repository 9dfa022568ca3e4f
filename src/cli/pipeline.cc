#include "cli/pipeline.h"

#include <deque>
#include <memory>

#include "cli/terminal.h"
#include "core/result.h"

namespace eadem::cli {
namespace {

struct Slot {
  Item item;
  bool done = false;
};

// An answer that ended in an error speaks for its line.
void fill(Slot& slot, std::vector<Completion> answers, uint64_t& tokens) {
  for (const Completion& answer : answers) {
    tokens += answer.tokens.size();
    if (answer.finish_reason == FinishReason::kError && slot.item.error.empty()) slot.item.error = answer.error;
  }
  slot.item.answers = std::move(answers);
  slot.done = true;
}

}  // namespace

Result<PipelineEnd> run_pipeline(Engine& engine, int most_under_way, const Source& source, const Sink& sink,
                                 const std::function<void(uint64_t tokens)>& tick) {
  std::deque<std::unique_ptr<Slot>> slots;
  PipelineEnd end;
  bool dry = false;
  while (!interrupted()) {
    const auto room = [&] { return !dry && slots.size() < static_cast<size_t>(most_under_way) && !interrupted(); };
    while (room() && (slots.empty() || source.ready())) {
      auto slot = std::make_unique<Slot>();
      if (!source.next(slot->item)) {
        dry = true;
        break;
      }
      Slot* where = slot.get();
      slots.push_back(std::move(slot));
      where->done = !where->item.error.empty();
      if (where->done) continue;
      Callbacks callbacks;
      callbacks.on_done = [where, &end](std::vector<Completion> answers) {
        fill(*where, std::move(answers), end.tokens);
      };
      const auto ticket = engine.submit(where->item.request, std::move(callbacks));
      if (ticket.ok()) continue;
      where->item.error = ticket.error().message;
      where->done = true;
    }
    if (slots.empty()) break;
    if (!slots.front()->done) engine.step();
    while (!slots.empty() && slots.front()->done) {
      EADEM_RETURN_IF_ERROR(sink(slots.front()->item));
      slots.pop_front();
    }
    tick(end.tokens);
  }
  end.interrupted = interrupted();
  return end;
}

}  // namespace eadem::cli
