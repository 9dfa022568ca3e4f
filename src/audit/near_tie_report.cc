#include "audit/near_tie_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;
constexpr int kBinsOfADecade = 4, kFirstDecade = -7, kLastDecade = 2;
constexpr size_t kListed = 16;  // positions listed of a prompt: the closest

struct Tally {
  uint64_t prompts = 0, positions = 0, at_risk = 0, flipped = 0, exact_ties = 0;
  double smallest_margin = 1e300, largest_difference = 0;

  void add(const NearTiePosition& position) {
    ++positions;
    at_risk += position.at_risk();
    flipped += !position.flips.empty();
    exact_ties += position.margin == 0;
    smallest_margin = std::min(smallest_margin, position.margin);
    largest_difference = std::max(largest_difference, position.difference);
  }
  ordered_json to_json() const {
    return {{"positions", positions},
            {"at_risk", at_risk},
            {"flipped", flipped},
            {"smallest_margin", positions > 0 ? smallest_margin : 0},
            {"largest_difference", largest_difference}};
  }
};

// Quarters of decades from 1e-7 to 100; what lies outside is counted in the bin at that end.
ordered_json histogram(const std::vector<double>& values) {
  ordered_json edges = ordered_json::array();
  const int bins = (kLastDecade - kFirstDecade) * kBinsOfADecade;
  for (int i = 0; i <= bins; ++i) edges.push_back(std::pow(10.0, kFirstDecade + double(i) / kBinsOfADecade));
  std::vector<uint64_t> counts(static_cast<size_t>(bins));
  for (const double value : values) {
    const double place = value > 0 ? (std::log10(value) - kFirstDecade) * kBinsOfADecade : 0.0;
    ++counts[static_cast<size_t>(std::clamp(static_cast<int>(std::floor(place)), 0, bins - 1))];
  }
  return {{"edges", edges}, {"counts", counts}};
}

// The nearest rank of sorted values.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(std::max(rank, 1.0)) - 1)];
}

ordered_json list(const NearTiePrompt& prompt, const std::vector<NearTieRun>& runs) {
  std::vector<size_t> order(prompt.positions.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const NearTiePosition &x = prompt.positions[a], &y = prompt.positions[b];
    if (x.at_risk() != y.at_risk()) return x.at_risk();
    return x.margin < y.margin;
  });
  if (order.size() > kListed) order.resize(kListed);
  ordered_json listed = ordered_json::array();
  for (const size_t i : order) {
    const NearTiePosition& position = prompt.positions[i];
    ordered_json flipped_by = ordered_json::array();
    for (const int run : position.flips) flipped_by.push_back(name_of(runs[static_cast<size_t>(run)]));
    listed.push_back({{"position", i},
                      {"token", position.token},
                      {"text", position.text},
                      {"runner_up", position.runner_up},
                      {"runner_up_text", position.runner_up_text},
                      {"margin", position.margin},
                      {"difference", position.difference},
                      {"at_risk", position.at_risk()},
                      {"flipped", !position.flips.empty()},
                      {"flipped_by", flipped_by}});
  }
  return listed;
}

std::string percent(uint64_t part, uint64_t whole) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", whole == 0 ? 0.0 : 100.0 * double(part) / double(whole));
  return text;
}

std::string summary_of(const Tally& all, const NearTies& ties) {
  if (ties.control_difference != 0) {
    return "The contract does not hold: the same tokens under other threads and rows gave another margin.";
  }
  return "In " + std::to_string(all.at_risk) + " of " + std::to_string(all.positions) + " positions (" +
         percent(all.at_risk, all.positions) +
         ") the two best tokens lie within what free-order arithmetic moves; in " + std::to_string(all.flipped) +
         " it changed the likeliest token.";
}

ordered_json runs_of(const NearTies& ties) {
  ordered_json runs = ordered_json::array();
  for (size_t i = 0; i < ties.runs.size(); ++i) {
    uint64_t flips = 0;
    for (const NearTiePrompt& prompt : ties.prompts) {
      for (const NearTiePosition& position : prompt.positions) {
        flips += std::count(position.flips.begin(), position.flips.end(), static_cast<int>(i));
      }
    }
    runs.push_back({{"name", name_of(ties.runs[i])},
                    {"threads", ties.runs[i].threads},
                    {"rows", ties.runs[i].rows},
                    {"flipped", flips}});
  }
  return runs;
}

}  // namespace

ordered_json near_tie_report(const NearTies& ties, const Corpus& corpus) {
  Tally all;
  std::map<std::string, Tally> categories;
  std::vector<double> margins, differences;
  ordered_json prompts = ordered_json::array(), by_category = ordered_json::array(), skipped = ordered_json::array();
  uint64_t prompts_flipped = 0;
  for (const NearTiePrompt& prompt : ties.prompts) {
    Tally own;
    for (const NearTiePosition& position : prompt.positions) {
      own.add(position), all.add(position), categories[prompt.category].add(position);
      margins.push_back(position.margin), differences.push_back(position.difference);
    }
    ++all.prompts, ++categories[prompt.category].prompts;
    prompts_flipped += own.flipped > 0;
    ordered_json object = {
        {"id", prompt.id}, {"category", prompt.category}, {"path", prompt.forced ? "golden" : "greedy"}};
    object.update(own.to_json());
    object["at"] = list(prompt, ties.runs);
    prompts.push_back(std::move(object));
  }
  for (const auto& [name, tally] : categories) {
    ordered_json object = {{"category", name}, {"prompts", tally.prompts}};
    object.update(tally.to_json());
    by_category.push_back(std::move(object));
  }
  for (const auto& one : ties.skipped) skipped.push_back({{"id", one.id}, {"reason", one.reason}});
  std::sort(differences.begin(), differences.end());
  return {{"kind", "near-tie"},
          {"schema", kSchema},
          {"verdict", ties.control_difference == 0 ? "done" : "fail"},
          {"summary", summary_of(all, ties)},
          {"subject",
           {{"model", ties.model},
            {"numerics", ties.numerics},
            {"mode", "contract"},
            {"compared_with", ties.free_numerics},
            {"identity", ties.identity},
            {"deployment", ties.deployment}}},
          {"counts",
           {{"positions", all.positions},
            {"at_risk", all.at_risk},
            {"flipped", all.flipped},
            {"exact_ties", all.exact_ties},
            {"prompts", all.prompts},
            {"prompts_flipped", prompts_flipped},
            {"skipped", ties.skipped.size()}}},
          {"corpus", {{"name", corpus.name}, {"digest", corpus.digest}, {"requests", corpus.requests.size()}}},
          {"runs", runs_of(ties)},
          {"control",
           {{"run", "contract " + name_of(ties.runs[0])},
            {"positions", ties.control_tokens},
            {"largest_difference", ties.control_difference}}},
          {"difference",
           {{"median", quantile(differences, 0.5)},
            {"p99", quantile(differences, 0.99)},
            {"max", quantile(differences, 1)}}},
          {"margins", histogram(margins)},
          {"differences", histogram(differences)},
          {"categories", by_category},
          {"prompts", prompts},
          {"skipped", skipped}};
}

std::string near_tie_text(const ordered_json& report) {
  std::string text = report["summary"].get<std::string>() + "\n";
  char line[256];
  const ordered_json& difference = report["difference"];
  std::snprintf(line, sizeof line,
                "Difference that free order makes to a margin: median %.3g, 99 %% below %.3g, largest %.3g nats\n",
                difference["median"].get<double>(), difference["p99"].get<double>(), difference["max"].get<double>());
  text += line;
  std::snprintf(line, sizeof line, "%-16s %8s %10s %8s %8s %16s\n", "category", "prompts", "positions", "at risk",
                "flipped", "smallest margin");
  text += line;
  for (const ordered_json& one : report["categories"]) {
    std::snprintf(line, sizeof line, "%-16.64s %8llu %10llu %8llu %8llu %16.3g\n",
                  one["category"].get_ref<const std::string&>().c_str(), one["prompts"].get<unsigned long long>(),
                  one["positions"].get<unsigned long long>(), one["at_risk"].get<unsigned long long>(),
                  one["flipped"].get<unsigned long long>(), one["smallest_margin"].get<double>());
    text += line;
  }
  for (const ordered_json& run : report["runs"]) {
    text += "free order, " + run["name"].get<std::string>() + ": " + run["flipped"].dump() + " flipped\n";
  }
  text += "control, " + report["control"]["run"].get<std::string>() + ": largest difference " +
          report["control"]["largest_difference"].dump() + "\n";
  return text;
}

}  // namespace eadem::audit
