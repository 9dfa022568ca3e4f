// Whether requests that were sent together ran together. Equal answers say nothing about batches unless they did.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "audit/black_box/traffic.h"

namespace eadem::audit::black_box {

// What speaks for one request having run beside others.
struct Presence {
  int neighbours = 0;       // that were sent
  int gaps = 0;             // between the pieces of the request's answer that came at different times
  int interleaved = 0;      // neighbours that brought tokens in at least kLeastGaps of those gaps
  int most_gaps = 0;        // in how many gaps the busiest neighbour brought tokens
  int readings = 0;         // of the gauge, between the request's first token (if it streams) and its end
  double running = 0.0;     // the most that the gauge said
  bool could_show = false;  // the answer came in enough pieces for interleaving to be seen
  bool reached = false;

  // "strong": streams interleaved, and the engine's own gauge said that more than one ran. "moderate": streams
  // interleaved. "weak": the gauge alone, of an endpoint whose streams could not show it. "none".
  std::string strength() const;
  std::string in_words() const;
};

// One gap may be chance: the end of one answer is read late, beside the start of the next.
inline constexpr int kLeastGaps = 3;

// gaps_wanted: how many gaps a neighbour must fill to count; fewer than kLeastGaps only for neighbours that were sent
// after the request's first token.
Presence presence_of(const Sent& request, const std::vector<std::shared_ptr<Sent>>& neighbours,
                     const std::vector<Reading>& readings, int gaps_wanted = kLeastGaps);

nlohmann::ordered_json to_json(const Presence& presence);

}  // namespace eadem::audit::black_box
