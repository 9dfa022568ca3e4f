#include "audit/black_box/presence.h"

#include <algorithm>

namespace eadem::audit::black_box {
namespace {

// Rounds in which something of the answer came, each once.
std::vector<uint64_t> rounds_of(const Sent& sent) {
  std::vector<uint64_t> rounds;
  for (const Sent::Mark& mark : sent.marks) {
    if (rounds.empty() || rounds.back() != mark.round) rounds.push_back(mark.round);
  }
  return rounds;
}

// In how many of the gaps [r_i, r_i+1) of the one something of the other came. A server that works on one request
// after the other fills at most the first, where what it wrote before is read late.
int filled(const std::vector<uint64_t>& request, const std::vector<uint64_t>& neighbour) {
  int count = 0;
  for (size_t i = 0; i + 1 < request.size(); ++i) {
    const auto first = std::lower_bound(neighbour.begin(), neighbour.end(), request[i]);
    count += first != neighbour.end() && *first < request[i + 1] ? 1 : 0;
  }
  return count;
}

}  // namespace

Presence presence_of(const Sent& request, const std::vector<std::shared_ptr<Sent>>& neighbours,
                     const std::vector<Reading>& readings, int gaps_wanted) {
  Presence presence;
  presence.neighbours = static_cast<int>(neighbours.size());
  const std::vector<uint64_t> rounds = rounds_of(request);
  presence.gaps = std::max(0, static_cast<int>(rounds.size()) - 1);
  presence.could_show = presence.gaps >= 2 * kLeastGaps;
  for (const auto& neighbour : neighbours) {
    const int count = filled(rounds, rounds_of(*neighbour));
    presence.most_gaps = std::max(presence.most_gaps, count);
    presence.interleaved += count >= gaps_wanted ? 1 : 0;
  }
  const uint64_t from = rounds.empty() ? request.sent_round + 1 : rounds.front();
  for (const Reading& reading : readings) {
    if (reading.asked_round < from || reading.told_round > request.done_round) continue;
    ++presence.readings;
    presence.running = std::max(presence.running, reading.running);
  }
  // A gauge may count what only waits: it is believed where streams could not show it.
  presence.reached = presence.interleaved > 0 || (!presence.could_show && presence.running > 1.0);
  return presence;
}

std::string Presence::strength() const {
  if (!reached) return "none";
  if (interleaved == 0) return "weak";
  return running > 1.0 ? "strong" : "moderate";
}

std::string Presence::in_words() const {
  const std::string streams = gaps == 0 ? std::string("its answer did not come in pieces")
                                        : "tokens of " + std::to_string(interleaved) + " of " +
                                              std::to_string(neighbours) + " neighbours came between its own (up to " +
                                              std::to_string(most_gaps) + " of " + std::to_string(gaps) + " gaps)";
  const std::string gauge = readings == 0 ? std::string("no gauge was read")
                                          : "the endpoint's gauge said that up to " +
                                                std::to_string(static_cast<int64_t>(std::min(running, 1e9))) + " ran";
  return streams + "; " + gauge;
}

nlohmann::ordered_json to_json(const Presence& presence) {
  return {{"reached", presence.reached},
          {"strength", presence.strength()},
          {"how", presence.in_words()},
          {"neighbours", presence.neighbours},
          {"interleaved_neighbours", presence.interleaved},
          {"gaps", presence.gaps},
          {"gaps_filled_at_most", presence.most_gaps},
          {"gauge_readings", presence.readings},
          {"gauge_most_running", presence.running}};
}

}  // namespace eadem::audit::black_box
