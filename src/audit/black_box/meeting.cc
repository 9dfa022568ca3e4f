#include "audit/black_box/meeting.h"

#include <algorithm>

namespace eadem::audit::black_box {
namespace {

constexpr double kForever = 1e9;           // each request has limits of its own
constexpr double kUnseenStart = 0.1;       // seconds given to requests whose start cannot be seen
constexpr size_t kMarksBeforeParting = 3;  // of the request, when half of its neighbours go

using Group = std::vector<std::shared_ptr<Sent>>;

// Until each has begun, or one of them is through: then those that have not begun wait for a place.
void let_begin(Traffic& traffic, const Group& group) {
  if (group.empty()) return;
  const bool seen = group.front()->ask.stream();
  traffic.run_until(
      [&] {
        return std::all_of(group.begin(), group.end(), [](const auto& one) { return one->begun(); }) ||
               std::any_of(group.begin(), group.end(), [](const auto& one) { return one->done; });
      },
      seen ? kForever : kUnseenStart);
}

Group send_all(Traffic& traffic, const std::vector<Ask>& asks) {
  Group group;
  for (const Ask& ask : asks) group.push_back(traffic.send(ask));
  return group;
}

}  // namespace

Met meet(Traffic& traffic, const Meeting& meeting) {
  Met met;
  met.before = send_all(traffic, meeting.before);
  let_begin(traffic, met.before);
  met.request = traffic.send(meeting.request);
  if (!meeting.after.empty()) {
    let_begin(traffic, {met.request});
    met.after = send_all(traffic, meeting.after);
  }
  const Sent& request = *met.request;
  if (meeting.part_midway) {
    traffic.run_until([&] { return request.done || request.marks.size() >= kMarksBeforeParting; }, kForever);
    for (size_t i = 0; i < met.before.size(); i += 2) traffic.leave(*met.before[i]);
  }
  Group all = met.before;
  all.insert(all.end(), met.after.begin(), met.after.end());
  traffic.run_until([&] { return request.done; }, kForever);
  // An endpoint without a gauge may go on with what was left, unseen, beside a request that should be alone.
  if (meeting.to_the_end || traffic.gauge().empty()) {
    traffic.run_until([&] { return std::all_of(all.begin(), all.end(), [](const auto& one) { return one->done; }); },
                      kForever);
  }
  met.presence = presence_of(request, all, traffic.readings(), meeting.before.empty() ? 1 : kLeastGaps);
  for (const auto& one : all) traffic.leave(*one);
  traffic.leave(*met.request);  // done, unless an interrupt came
  if (!meeting.to_the_end) traffic.settle();
  return met;
}

}  // namespace eadem::audit::black_box
