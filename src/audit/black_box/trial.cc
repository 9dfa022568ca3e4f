#include "audit/black_box/trial.h"

#include <algorithm>
#include <initializer_list>

#include "audit/difference.h"

namespace eadem::audit::black_box {
namespace {

using nlohmann::ordered_json;
using Fault = Sent::Fault;

constexpr std::initializer_list<const char*> kLists = {"token_ids", "tokens", "logprobs", "top_logprobs"};

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void keep_common(ordered_json& was, ordered_json& is) {
  for (const char* field : kLists) {
    if (was.contains(field) && is.contains(field)) continue;
    was.erase(field);
    is.erase(field);
  }
}

void keep_beginning(ordered_json& was, ordered_json& is) {
  for (const char* field : kLists) {
    if (!was.contains(field) || !is.contains(field) || was[field].size() <= is[field].size()) continue;
    was[field].erase(was[field].begin() + static_cast<std::ptrdiff_t>(is[field].size()), was[field].end());
  }
  const std::string text = is["text"].get<std::string>(), whole = was["text"].get<std::string>();
  if (whole.starts_with(text)) was["text"] = text;
  was.erase("finish_reason");
  is.erase("finish_reason");
}

// What audit::first_difference does not look at: names of tokens, and digits beyond a float32's.
ordered_json difference_in_print(const ordered_json& was, const ordered_json& is) {
  for (const char* field : {"tokens", "logprobs"}) {
    if (!was.contains(field) && !is.contains(field)) continue;
    const ordered_json none = ordered_json::array();
    const ordered_json a = was.value(field, none), b = is.value(field, none);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const ordered_json one = i < a.size() ? a[i] : ordered_json("none");
      const ordered_json other = i < b.size() ? b[i] : ordered_json("none");
      if (dump(one) == dump(other)) continue;
      return {{"field", field}, {"position", i}, {"was", {{"value", one}}}, {"is", {{"value", other}}}};
    }
  }
  return nullptr;
}

}  // namespace

ordered_json difference_of(const Choice& was, const Choice& is, Extent extent) {
  ordered_json a = to_json(was), b = to_json(is);
  if (extent != Extent::kAll) keep_common(a, b);
  if (extent == Extent::kPrefix) keep_beginning(a, b);
  ordered_json difference = first_difference(a, b);
  return difference.is_null() ? difference_in_print(a, b) : difference;
}

bool is_lost(const Sent& sent) {
  return sent.fault == Fault::kUnreachable || sent.fault == Fault::kRefused || sent.fault == Fault::kTimeout;
}

ordered_json& Trial::run() {
  ordered_json& runs = result_.evidence["runs"];
  if (runs.empty()) begin("");
  return result_.evidence["runs"].back();
}

void Trial::begin(const std::string& value) {
  result_.evidence["runs"].push_back({{"value", value}, {"compared", 0}, {"equal", 0}});
}

bool Trial::compare(const std::string& request, const Choice& was, const Choice& is, Extent extent) {
  ordered_json& of = run();
  ++result_.compared;
  of["compared"] = of["compared"].get<int>() + 1;
  const ordered_json difference = difference_of(was, is, extent);
  if (difference.is_null()) {
    ++result_.equal;
    of["equal"] = of["equal"].get<int>() + 1;
    return true;
  }
  if (result_.first_difference.is_null()) {
    result_.first_difference = {{"request", request}, {"value", of["value"]}};
    result_.first_difference.update(difference);
  }
  return false;
}

void Trial::no_answer(const std::string& request, const Sent& sent) {
  if (sent.gone || !sent.done) {
    interrupted();
    return;
  }
  ordered_json& faults = run()["faults"];
  faults.push_back({{"request", request}, {"message", sent.message}});
  if (is_lost(sent)) lost_ = sent.message;
  if (sent.fault == Fault::kBusy) {
    cannot("the endpoint does not take so many requests: " + sent.message);
  } else {
    fail("request " + request + " has no answer: " + sent.message);
  }
}

void Trial::note(const char* name, ordered_json value) { run()[name] = std::move(value); }

void Trial::company(const std::string& request, const Presence& presence) {
  ordered_json evidence = {{"request", request}};
  evidence.update(to_json(presence));
  run()["co_residency"].push_back(std::move(evidence));
}

void Trial::cannot(const std::string& reason) {
  if (reason_.empty()) reason_ = reason;
}

void Trial::fail(const std::string& reason) {
  if (failure_.empty()) failure_ = reason;
}

CellResult Trial::finish(double seconds) {
  result_.seconds = seconds;
  if (differed()) {
    const ordered_json& first = result_.first_difference;
    const std::string value = first["value"].get<std::string>();
    result_.verdict = Verdict::kFail;
    result_.reason = std::to_string(result_.compared - result_.equal) + " of " + std::to_string(result_.compared) +
                     " answers differ; first request " + first["request"].get<std::string>() +
                     (value.empty() ? "" : " (" + value + ")") + ", " + describe_difference(first);
  } else if (!failure_.empty()) {
    result_.verdict = Verdict::kFail;
    result_.reason = failure_;
  } else if (interrupted_) {
    result_.verdict = Verdict::kNotRun;
    result_.reason = "interrupted";
  } else if (!reason_.empty()) {
    result_.verdict = Verdict::kNotTestable;
    result_.reason = reason_;
  } else if (result_.compared == 0 && !held_) {
    result_.verdict = Verdict::kNotTestable;
    result_.reason = "nothing was compared";
  } else {
    result_.verdict = Verdict::kPass;
  }
  return std::move(result_);
}

}  // namespace eadem::audit::black_box
