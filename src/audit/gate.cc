#include "audit/gate.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "audit/difference.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

// Steps that both answers have, up to the first differing token.
size_t common_steps(const RecordedAnswer& was, const RecordedAnswer& is) {
  const size_t both = std::min(was.tokens.size(), is.tokens.size());
  for (size_t i = 0; i < both; ++i) {
    if (was.tokens[i].token != is.tokens[i].token) return i + 1;
  }
  return both;
}

std::map<int32_t, double> top_of(const SampledToken& step) {
  std::map<int32_t, double> top;
  for (const TokenLogprob& entry : step.top) {
    if (!std::isnan(entry.logprob)) top[entry.token] = entry.logprob;
  }
  if (!std::isnan(step.logprob)) top[step.token] = step.logprob;
  return top;
}

struct StepDistance {
  double sum = 0, largest = 0, kl = 0;
  uint64_t tokens = 0;
};

StepDistance distance_at(const SampledToken& was, const SampledToken& is) {
  const auto p = top_of(was), q = top_of(is);
  StepDistance step;
  double p_rest = 1, q_rest = 1;
  for (const auto& [token, logprob] : p) {
    const auto other = q.find(token);
    if (other == q.end()) continue;
    const double apart = std::abs(logprob - other->second);
    step.sum += apart;
    step.largest = std::max(step.largest, apart);
    ++step.tokens;
    step.kl += std::exp(logprob) * (logprob - other->second);
    p_rest -= std::exp(logprob);
    q_rest -= std::exp(other->second);
  }
  constexpr double kLeast = 1e-7;  // what float32 logprobs leave of a rest
  if (p_rest > kLeast) step.kl += p_rest * std::log(p_rest / std::max(q_rest, kLeast));
  step.kl = std::max(step.kl, 0.0);
  return step;
}

Distance distance_between(const RecordedAnswer& was, const RecordedAnswer& is) {
  Distance distance;
  distance.steps = common_steps(was, is);
  double sum = 0, kl = 0;
  uint64_t tokens = 0;
  for (size_t i = 0; i < distance.steps; ++i) {
    const StepDistance step = distance_at(was.tokens[i], is.tokens[i]);
    sum += step.sum;
    tokens += step.tokens;
    kl += step.kl;
    distance.logprob_max = std::max(distance.logprob_max, step.largest);
    distance.kl_max = std::max(distance.kl_max, step.kl);
  }
  if (tokens > 0) distance.logprob_mean = sum / static_cast<double>(tokens);
  if (distance.steps > 0) distance.kl_mean = kl / static_cast<double>(distance.steps);
  return distance;
}

std::optional<double> margin_at(const SampledToken& step) {
  if (step.top.size() < 2 || std::isnan(step.top[0].logprob) || std::isnan(step.top[1].logprob)) return std::nullopt;
  return double{step.top[0].logprob} - double{step.top[1].logprob};
}

std::optional<double> least_margin(const RecordedAnswer& answer) {
  std::optional<double> least;
  for (const SampledToken& step : answer.tokens) {
    const auto margin = margin_at(step);
    if (margin && (!least || *margin < *least)) least = margin;
  }
  return least;
}

// In the report's words.
ordered_json in_words(const std::string& request, const ordered_json& difference) {
  const std::string field = difference["field"];
  const std::string what = field == "token_ids" ? "token" : field == "logprobs" ? "logprob" : field;
  ordered_json words = {{"request", request}, {"what", what}};
  if (difference.contains("position")) words["step"] = difference["position"];
  const auto side = [](const ordered_json& one) {
    return one["value"] == "none" ? ordered_json(nullptr) : one["value"];
  };
  words["expected"] = side(difference["was"]);
  words["found"] = side(difference["is"]);
  return words;
}

ordered_json difference_between(const RecordedAnswer& was, const RecordedAnswer& is, bool brief) {
  const std::string name = was.name();
  if (was.not_run.empty() != is.not_run.empty()) {
    const auto side = [](const RecordedAnswer& a) { return a.not_run.empty() ? "answered" : "not run: " + a.not_run; };
    return {{"request", name}, {"what", "answer"}, {"expected", side(was)}, {"found", side(is)}};
  }
  if (!was.not_run.empty()) return nullptr;
  if (was.prompt_hash != is.prompt_hash) {
    return {{"request", name}, {"what", "prompt"}, {"expected", was.prompt_hash}, {"found", is.prompt_hash}};
  }
  const ordered_json a = was.comparable(brief), b = is.comparable(brief);
  ordered_json difference = first_difference(a, b, was.level);
  if (!difference.is_null()) return in_words(name, difference);
  if (brief && was.level == Level::kBits && was.logprobs_hash != is.logprobs_hash) {
    return {{"request", name}, {"what", "logprobs_hash"}, {"expected", was.logprobs_hash}, {"found", is.logprobs_hash}};
  }
  return nullptr;
}

std::optional<int> covering(const std::vector<Approval>& approvals, const AnswerResult& answer) {
  for (size_t i = 0; i < approvals.size(); ++i) {
    const auto found = approvals[i].answers.find(answer.was.name());
    if (!approvals[i].counts() || found == approvals[i].answers.end()) continue;
    if (found->second.was == answer.was.digest() && found->second.is == answer.is.digest()) return static_cast<int>(i);
  }
  return std::nullopt;
}

AnswerResult compare_answer(const RecordedAnswer& was, const RecordedAnswer& is, bool brief,
                            const std::vector<Approval>& approvals) {
  AnswerResult result{.was = was, .is = is, .first_difference = difference_between(was, is, brief)};
  if (was.not_run.empty() && is.not_run.empty() && was.prompt_hash == is.prompt_hash) {
    const size_t both = std::min(was.tokens.size(), is.tokens.size());
    for (size_t i = 0; i < both; ++i) result.tokens_different += was.tokens[i].token != is.tokens[i].token;
    result.tokens_different += std::max(was.tokens.size(), is.tokens.size()) - both;
    if (!brief) result.distance = distance_between(was, is);
  }
  // Now's margins are as good as the baseline's where that one is brief and nothing moved up to there.
  const RecordedAnswer& margins = brief ? is : was;
  result.margin = least_margin(margins);
  if (!result.first_difference.is_null()) {
    result.verdict = AnswerVerdict::kDrift;
    if (result.first_difference["what"] == "token") {
      const auto step = result.first_difference["step"].get<size_t>();
      result.margin = step < margins.tokens.size() ? margin_at(margins.tokens[step]) : std::nullopt;
    }
    result.approval = covering(approvals, result);
    if (result.approval) result.verdict = AnswerVerdict::kApproved;
  } else if (!was.not_run.empty()) {
    result.verdict = AnswerVerdict::kNotRun;
  }
  return result;
}

std::string plain(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::vector<FieldChange> changes_between(const ordered_json& was, const ordered_json& is) {
  std::vector<FieldChange> changes;
  for (const auto& [field, value] : was.items()) {
    const ordered_json now = is.value(field, ordered_json("(absent)"));
    if (now != value) changes.push_back({field, plain(value), plain(now)});
  }
  for (const auto& [field, value] : is.items()) {
    if (!was.contains(field)) changes.push_back({field, "(absent)", plain(value)});
  }
  return changes;
}

ordered_json to_json(const std::vector<FieldChange>& changes) {
  ordered_json list = ordered_json::array();
  for (const FieldChange& change : changes) {
    list.push_back({{"field", change.field}, {"baseline", change.was}, {"now", change.is}});
  }
  return list;
}

std::string_view name_of(AnswerVerdict verdict) {
  switch (verdict) {
    case AnswerVerdict::kPass: return "pass";
    case AnswerVerdict::kApproved: return "approved";
    case AnswerVerdict::kDrift: return "drift";
    case AnswerVerdict::kNotRun: return "not_run";
  }
  return "drift";
}

// What a person reads of a token id.
Result<std::string> text_of(const ordered_json& token, const Engine& engine) {
  return engine.detokenize(std::vector<int32_t>{token.get<int32_t>()}, false);
}

ordered_json to_json(const AnswerResult& answer, const Engine& engine) {
  ordered_json object = {{"id", answer.was.name()},
                         {"category", answer.was.category},
                         {"level", audit::name_of(answer.was.level)},
                         {"verdict", name_of(answer.verdict)},
                         {"tokens", answer.was.tokens.size()},
                         {"first_difference", answer.first_difference}};
  if (answer.first_difference.is_object() && answer.first_difference["what"] == "token") {
    for (const auto& [side, name] : {std::pair("expected", "expected_text"), std::pair("found", "found_text")}) {
      const ordered_json& token = answer.first_difference[side];
      if (!token.is_number()) continue;
      if (auto text = text_of(token, engine); text.ok()) object["first_difference"][name] = std::move(text).value();
    }
  }
  if (answer.tokens_different > 0) object["tokens_different"] = answer.tokens_different;
  if (answer.distance) {
    object["logprob_distance"] = answer.distance->logprob_max;
    object["logprob_distance_mean"] = answer.distance->logprob_mean;
    object["kl"] = answer.distance->kl_max;
    object["kl_mean"] = answer.distance->kl_mean;
    object["steps_compared"] = answer.distance->steps;
  }
  if (answer.margin) {
    object["near_tie_margin"] = *answer.margin;
    object["near_tie"] = *answer.margin <= kNearTie;
  }
  if (answer.approval) object["approval"] = *answer.approval;
  if (!answer.is.not_run.empty()) object["reason"] = answer.is.not_run;
  return object;
}

ordered_json to_json(const Approval& approval) {
  return {{"counts", approval.counts()}, {"fault", approval.fault},   {"date", approval.date},
          {"signer", approval.signer},   {"key_id", approval.key_id}, {"reason", approval.reason},
          {"from", approval.from},       {"to", approval.to},         {"requests", approval.answers.size()}};
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string token_in_words(const ordered_json& token, const Engine& engine) {
  if (!token.is_number()) return "the end";
  const auto text = text_of(token, engine);
  return token.dump() +
         (text.ok() ? " " + ordered_json(text.value()).dump(-1, ' ', false, ordered_json::error_handler_t::replace)
                    : "");
}

std::string names_of(const std::vector<FieldChange>& changes) {
  std::string names;
  for (const FieldChange& change : changes) names += (names.empty() ? "" : ", ") + change.field;
  return names;
}

}  // namespace

GateResult compare(const Baseline& was, const Baseline& is, std::vector<Approval> approvals) {
  GateResult result;
  result.identity_changed = was.identity != is.identity;
  result.identity_changes = changes_between(was.identity_parts, is.identity_parts);
  result.deployment_changes = changes_between(was.deployment_parts, is.deployment_parts);
  std::map<std::string, const RecordedAnswer*> now;
  for (const RecordedAnswer& answer : is.answers) now[answer.name()] = &answer;
  std::map<std::string, bool> asked;  // requests, by id: whether any answer of now is left
  for (const RecordedAnswer& answer : is.answers) asked[answer.id] = true;
  for (const RecordedAnswer& answer : was.answers) {
    if (asked.count(answer.id) == 0) continue;
    const auto found = now.find(answer.name());
    RecordedAnswer none;
    none.id = answer.id;
    none.index = answer.index;
    none.not_run = "there is no such answer any more";
    result.answers.push_back(compare_answer(answer, found == now.end() ? none : *found->second, was.brief, approvals));
    switch (result.answers.back().verdict) {
      case AnswerVerdict::kPass: ++result.pass; break;
      case AnswerVerdict::kApproved: ++result.approved; break;
      case AnswerVerdict::kDrift: ++result.drift; break;
      case AnswerVerdict::kNotRun: ++result.not_run; break;
    }
  }
  result.approvals = std::move(approvals);
  result.passed = result.drift == 0 && result.pass + result.approved > 0;
  return result;
}

std::string summary_of(const GateResult& result) {
  const std::string all = std::to_string(result.answers.size()) + (result.answers.size() == 1 ? " answer" : " answers");
  const std::string drifted = std::to_string(result.drift) + " of " + all + " drifted";
  const std::string aside =
      result.not_run > 0 ? " (" + std::to_string(result.not_run) + " cannot be asked of this model)" : "";
  if (result.pass + result.approved + result.drift == 0)
    return "Nothing was compared: this model can answer none of " + all + ".";
  if (result.drift > 0 && result.identity_changed) {
    return drifted + aside + ", and so did the identity (" + names_of(result.identity_changes) +
           "): a change that needs an approval.";
  }
  if (result.drift > 0) return drifted + aside + " under equal identity: this is a bug, not a new model.";
  if (result.approved > 0) {
    return std::to_string(result.approved) + " of " + all + " drifted, all with an approval; the others are equal" +
           aside + ".";
  }
  const std::string equal = "All of " + all + " are equal" + aside;
  if (!result.identity_changed) return equal + ".";
  return equal + ", though the identity changed (" + names_of(result.identity_changes) + ").";
}

std::string describe(const AnswerResult& answer, const Engine& engine) {
  const ordered_json& difference = answer.first_difference;
  const std::string what = difference["what"];
  std::string line = answer.was.name() + " (" + std::string(audit::name_of(answer.was.level)) + "): ";
  const bool token = what == "token";
  const auto side = [&](const char* name) {
    return token ? token_in_words(difference[name], engine) : plain(difference[name]);
  };
  const std::string at = difference.contains("step") ? " " + std::to_string(difference["step"].get<uint64_t>()) : "";
  line += what + at + " was " + side("expected") + ", is " + side("found");
  if (answer.tokens_different > 0) line += "; " + std::to_string(answer.tokens_different) + " tokens differ";
  if (answer.distance) {
    line += "; logprobs moved by up to " + number(answer.distance->logprob_max) + " (mean " +
            number(answer.distance->logprob_mean) + "), KL at least " + number(answer.distance->kl_max);
  }
  if (token && answer.margin) {
    line += "; the top two lay " + number(*answer.margin) +
            " apart: " + (*answer.margin <= kNearTie ? "a near tie" : "no near tie");
  }
  if (answer.approval) line += "; approved";
  return line;
}

ordered_json to_json(const GateResult& result, const Baseline& was, const Baseline& is, const Engine& engine) {
  const bool drifted = result.drift + result.approved > 0;
  ordered_json object = {
      {"kind", "gate"},
      {"schema", 1},
      {"verdict", result.passed ? "pass" : "fail"},
      {"summary", summary_of(result)},
      {"date", is.date},
      {"subject",
       {{"model", is.model},
        {"numerics", is.numerics},
        {"mode", is.mode},
        {"identity", is.identity},
        {"deployment", is.deployment}}},
      {"machine", is.deployment_parts},
      {"program", {{"version", is.program}}},
      {"counts",
       {{"pass", result.pass}, {"drift", result.drift}, {"approved", result.approved}, {"not_run", result.not_run}}},
      {"corpus", {{"name", is.corpus_name}, {"digest", is.corpus_digest}, {"answers", result.answers.size()}}},
      {"baseline",
       {{"date", was.date},
        {"program", was.program},
        {"numerics", was.numerics},
        {"identity", was.identity},
        {"deployment", was.deployment},
        {"digest", was.digest()},
        {"brief", was.brief}}},
      {"cause", !drifted                  ? "none"
                : result.identity_changed ? "identity_changed"
                                          : "bits_changed"},
      {"near_tie_below", kNearTie},
      {"identity_differences", to_json(result.identity_changes)},
      {"deployment_differences", to_json(result.deployment_changes)}};
  object["requests"] = ordered_json::array();
  for (const AnswerResult& answer : result.answers) object["requests"].push_back(to_json(answer, engine));
  object["approvals"] = ordered_json::array();
  for (const Approval& approval : result.approvals) object["approvals"].push_back(to_json(approval));
  return object;
}

}  // namespace eadem::audit
