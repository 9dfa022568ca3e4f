#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "audit/black_box/meeting.h"
#include "audit/black_box/ways.h"

namespace eadem::audit::black_box {
namespace {

using Values = std::vector<std::string>;

// Whether to try once more to make requests meet. Each time the neighbours' answers are longer; an endpoint that is
// slow to show it is not tried for ever.
class Tries {
 public:
  bool more() {
    ++tries_;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    return tries_ <= kLeast || (tries_ <= kMost && seconds < kSeconds);
  }
  // How many times as long as usual.
  int grow() const { return std::min(1 << (tries_ - 1), 4); }

 private:
  static constexpr int kLeast = 2, kMost = 6;
  static constexpr double kSeconds = 30.0;
  int tries_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr int kFewNeighbours = 5;

int few(const Site& site) { return std::min(kFewNeighbours, site.max_neighbours()); }

std::vector<Ask> neighbours(const Site& site, int count, int grow) {
  std::vector<Ask> asks;
  for (int i = 0; i < count; ++i) asks.push_back(site.ask(site.neighbour(i, grow)));
  return asks;
}

void remember_all(Site& site, const Met& met) {
  for (const auto* group : {&met.before, &met.after}) {
    for (const auto& one : *group) {
      if (one->ok()) site.remember(one->answer);
    }
  }
}

// Whether company can be tried at all; the trial is told where not.
bool company_possible(const Site& site, Trial& trial) {
  if (site.no_company.empty()) return true;
  trial.cannot(site.no_company);
  return false;
}

std::string not_reached(const Presence& presence) { return "co-residency was not reached: " + presence.in_words(); }

// Lets the subject meet others, until it did so or the tries are used up, and compares its answer each time with the
// one alone. meeting_of(grow) is a meeting whose neighbours' answers are `grow` times as long as usual.
void compare_in(Site& site, const Subject& subject, Trial& trial, const std::function<Meeting(int)>& meeting_of) {
  const Choice* baseline = site.alone(subject, trial);
  if (baseline == nullptr) return;
  Presence presence;
  for (Tries tries; !presence.reached && tries.more();) {
    const Met met = meet(site.traffic(), meeting_of(tries.grow()));
    remember_all(site, met);
    if (!met.request->ok()) {
      trial.no_answer(subject.id, *met.request);
      return;
    }
    site.remember(met.request->answer);
    presence = met.presence;
    trial.company(subject.id, presence);
    if (!trial.compare(subject.id, *baseline, met.request->answer.choices.front())) return;
  }
  if (!presence.reached) trial.cannot(not_reached(presence));
}

void compare_beside(Site& site, const Subject& subject, Trial& trial,
                    const std::function<std::vector<Ask>(int)>& others) {
  compare_in(site, subject, trial, [&](int grow) {
    Meeting meeting;
    meeting.before = others(grow);
    meeting.request = site.ask(subject.wish);
    return meeting;
  });
}

// How long so many equal requests take one after the other, and at once. Evidence, no verdict: machines are busy.
void time_together(Site& site, int count, Trial& trial) {
  const Ask ask = site.ask(site.middle().wish);
  double singles = 0.0;
  for (int i = 0; i < count; ++i) {
    const auto sent = site.traffic().ask_alone(ask);
    if (!sent->ok()) return;
    singles += sent->seconds;
  }
  std::vector<std::shared_ptr<Sent>> all;
  for (int i = 0; i < count; ++i) all.push_back(site.traffic().send(ask));
  for (const auto& sent : all) site.traffic().run_until([&] { return sent->done; }, 1e9);
  double together = 0.0;
  for (const auto& sent : all) {
    if (!sent->ok()) return;
    together = std::max(together, sent->seconds);
  }
  trial.note("seconds_one_after_the_other", singles);
  trial.note("seconds_together", together);
}

}  // namespace

// Two and more streams at once: do their tokens come between one another's?
void run_co_residency(Site& site, const Values& values, Trial& trial) {
  const Subject subject = site.middle();
  std::string why;
  for (const std::string& value : values) {
    const int count = std::clamp(std::atoi(value.c_str()) - 1, 1, std::max(1, site.max_neighbours()));
    trial.begin(value);
    Presence presence;
    std::string fault;
    for (Tries tries; !presence.reached && tries.more();) {
      Meeting meeting;
      meeting.before = neighbours(site, count, tries.grow());
      meeting.request = site.ask(subject.wish);
      const Met met = meet(site.traffic(), meeting);
      if (site.traffic().stopped()) return trial.interrupted();
      if (is_lost(*met.request)) return trial.no_answer(subject.id, *met.request);
      remember_all(site, met);
      presence = met.presence;
      fault = met.request->ok() ? "" : met.request->message;
      trial.company(subject.id, presence);
      const auto cut = std::count_if(met.before.begin(), met.before.end(),
                                     [](const auto& one) { return one->fault != Sent::Fault::kNone; });
      if (cut > 0) trial.note("neighbours_without_an_answer", cut);
    }
    time_together(site, count + 1, trial);
    if (!presence.reached && !fault.empty()) trial.fail("in company the request has no answer: " + fault);
    if (!presence.reached && why.empty()) why = not_reached(presence);
  }
  trial.held();
  if (why.empty()) return;
  site.no_company = why + "; nothing can be said of batches";
  trial.cannot(site.no_company);
}

void run_batch_size(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  const std::vector<Subject> all = site.subjects();
  for (const std::string& value : values) {
    const int count = std::atoi(value.c_str());
    trial.begin(value);
    if (count > site.max_neighbours()) {
      trial.note("left_out", "more than --max-concurrent allows");
      continue;
    }
    for (size_t i = 0; i < std::min<size_t>(2, all.size()) && trial.lost().empty(); ++i)
      compare_beside(site, all[i], trial, [&](int grow) { return neighbours(site, count, grow); });
  }
}

void run_content(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  const Subject subject = site.middle();
  for (const std::string& value : values) {
    trial.begin(value);
    compare_beside(site, subject, trial, [&](int grow) {
      std::vector<Ask> asks;
      for (int i = 0; i < few(site); ++i) {
        Wish wish = site.neighbour(i, grow);
        if (value != "other") wish.prompt = subject.wish.prompt;
        if (value == "near") wish.prompt += " " + std::to_string(i);
        asks.push_back(site.ask(wish));
      }
      return asks;
    });
  }
}

void run_neighbour_length(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  for (const std::string& value : values) {
    trial.begin(value);
    compare_beside(site, site.middle(), trial, [&](int grow) {
      std::vector<Ask> asks;
      for (int i = 0; i < few(site); ++i) {
        const bool is_long = value == "long" || (value == "mixed" && i % 2 == 0);
        const int tokens = is_long ? site.sizes().long_prompt / 2 : 4;
        Wish wish = site.neighbour(i, grow);
        wish.prompt = prompt_of(tokens, 2000 + static_cast<uint64_t>(i), site.can());
        wish.max_tokens = site.fitting(site.sizes().neighbour_answer * grow, tokens);
        asks.push_back(site.ask(wish));
      }
      return asks;
    });
  }
}

void run_neighbour_sampling(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  for (const std::string& value : values) {
    trial.begin(value);
    compare_beside(site, site.middle(), trial, [&](int grow) {
      std::vector<Ask> asks;
      for (int i = 0; i < few(site); ++i) {
        Wish wish = site.neighbour(i, grow);
        wish.temperature = value == "greedy" ? 0.0 : 1.0;
        wish.top_p = value == "sampled" ? 0.8 : 1.0;
        if (value == "greedy") wish.seed.reset();
        if (value == "penalised") wish.presence_penalty = 0.7;
        if (value == "plain") wish.logprobs = false;
        asks.push_back(site.ask(wish));
      }
      return asks;
    });
  }
}

void run_position(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  Subject subject = site.middle();
  subject.wish.max_tokens = site.fitting(2 * subject.wish.max_tokens, site.sizes().prompts[1]);
  for (const std::string& value : values) {
    trial.begin(value);
    compare_in(site, subject, trial, [&](int grow) {
      std::vector<Ask> all = neighbours(site, few(site), grow);
      const auto before = value == "first" ? 0 : value == "last" ? all.size() : all.size() / 2;
      const auto cut = all.begin() + static_cast<std::ptrdiff_t>(before);
      Meeting meeting;
      meeting.before.assign(all.begin(), cut);
      meeting.request = site.ask(subject.wish);
      meeting.after.assign(cut, all.end());
      return meeting;
    });
  }
}

void run_prompt_length(Site& site, const Values&, Trial& trial) {
  if (!company_possible(site, trial)) return;
  for (const Subject& subject : site.subjects()) {
    if (!trial.lost().empty()) return;
    trial.begin(subject.id);
    compare_beside(site, subject, trial, [&](int grow) { return neighbours(site, few(site), grow); });
  }
}

void run_seeded_company(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  if (!site.no_seed.empty()) return trial.cannot(site.no_seed);
  for (const std::string& value : values) {
    const int count = std::min(std::atoi(value.c_str()), site.max_neighbours());
    trial.begin(value);
    compare_beside(site, site.seeded(), trial, [&](int grow) { return neighbours(site, count, grow); });
  }
}

// Every one of them is compared, and each is a neighbour of the others.
void run_all_at_once(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  for (const std::string& value : values) {
    trial.begin(value);
    const int count = std::clamp(std::atoi(value.c_str()), 2, site.max_neighbours() + 1);
    std::vector<Subject> all;
    for (int i = 0; i < count; ++i) {
      Subject subject = site.middle();
      subject.id = "greedy-" + std::to_string(i);
      const int tokens = site.sizes().neighbour_prompt * (2 + i % 5) / 4;
      subject.wish.prompt = prompt_of(tokens, 3000 + static_cast<uint64_t>(i), site.can());
      subject.wish.max_tokens = site.fitting(2 * subject.wish.max_tokens, tokens);
      all.push_back(subject);
    }
    std::vector<const Choice*> baselines;
    for (const Subject& subject : all) baselines.push_back(site.alone(subject, trial));
    if (std::count(baselines.begin(), baselines.end(), nullptr) > 0) return;
    Meeting meeting;
    for (int i = 0; i + 1 < count; ++i) meeting.before.push_back(site.ask(all[static_cast<size_t>(i)].wish));
    meeting.request = site.ask(all.back().wish);
    meeting.to_the_end = true;
    Presence presence;
    for (Tries tries; !presence.reached && tries.more();) {
      Met met = meet(site.traffic(), meeting);
      remember_all(site, met);
      met.before.push_back(met.request);
      for (size_t k = 0; k < all.size(); ++k) {
        const Sent& sent = *met.before[k];
        if (!sent.ok()) return trial.no_answer(all[k].id, sent);
        trial.compare(all[k].id, *baselines[k], sent.answer.choices.front());
        auto others = met.before;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
        const Presence one = presence_of(sent, others, site.traffic().readings());
        if (k == 0 || one.interleaved > presence.interleaved) presence = one;
      }
      trial.company("the one that met most others", presence);
    }
    if (!presence.reached) trial.cannot(not_reached(presence));
  }
}

// A long prompt arrives while the subject draws its answer: in chunks or whole, it may not matter.
void run_late_long_prompt(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  if (!site.can().streaming) return trial.cannot(site.can().no_stream);
  Subject subject = site.middle();
  subject.wish.max_tokens = site.fitting(3 * subject.wish.max_tokens, site.sizes().prompts[1]);
  for (const std::string& value : values) {
    trial.begin(value);
    compare_in(site, subject, trial, [&](int) {
      Meeting meeting;
      meeting.request = site.ask(subject.wish);
      for (int i = 0; i < std::max(1, std::atoi(value.c_str())); ++i) {
        Wish wish = site.neighbour(i, 1);
        wish.prompt = prompt_of(site.sizes().long_prompt, 4000 + static_cast<uint64_t>(i), site.can());
        wish.max_tokens = site.fitting(16, site.sizes().long_prompt);
        meeting.after.push_back(site.ask(wish));
      }
      return meeting;
    });
  }
}

// Half of the neighbours go away while the subject draws.
void run_parting(Site& site, const Values& values, Trial& trial) {
  if (!company_possible(site, trial)) return;
  if (!site.can().streaming) return trial.cannot(site.can().no_stream);
  Subject subject = site.middle();
  subject.wish.max_tokens = site.fitting(2 * subject.wish.max_tokens, site.sizes().prompts[1]);
  for (const std::string& value : values) {
    trial.begin(value);
    compare_in(site, subject, trial, [&](int grow) {
      Meeting meeting;
      meeting.before = neighbours(site, std::min(std::atoi(value.c_str()), site.max_neighbours()), grow);
      meeting.request = site.ask(subject.wish);
      meeting.part_midway = true;
      return meeting;
    });
  }
}

void run_chat(Site& site, const Values& values, Trial& trial) {
  if (!site.can().completions || !site.can().chat)
    return trial.cannot(site.can().chat ? "the endpoint has chat alone: the other cells are of it"
                                        : "the endpoint has no chat/completions that answers");
  if (!company_possible(site, trial)) return;
  Subject subject = site.middle();
  subject.id = "chat";
  subject.wish.chat = true;
  for (const std::string& value : values) {
    const int count = std::min(std::atoi(value.c_str()), site.max_neighbours());
    trial.begin(value);
    compare_beside(site, subject, trial, [&](int grow) { return neighbours(site, count, grow); });
  }
}

const Way* way_of(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kWays), std::end(kWays), [&](const Way& way) { return way.name == name; });
  return found == std::end(kWays) ? nullptr : found;
}

}  // namespace eadem::audit::black_box
