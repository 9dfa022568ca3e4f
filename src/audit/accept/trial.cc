#include "audit/accept/trial.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "api/request_json.h"
#include "audit/difference.h"
#include "text/blake3.h"

namespace eadem::audit::accept {
namespace {

using nlohmann::ordered_json;

constexpr size_t kDigits = 32;  // of a hash that is shown: 128 bits

std::string tokens_hash(const ordered_json& answer) {
  text::Blake3 hash;
  if (!answer.contains("token_ids")) return {};
  for (const ordered_json& token : answer["token_ids"]) {
    const auto id = token.get<int32_t>();
    hash.update(&id, sizeof id);
  }
  return hash.hex_digest().substr(0, kDigits);
}

void add_float(text::Blake3& hash, const ordered_json& value) {
  const float number = value.is_number() ? static_cast<float>(value.get<double>()) : NAN;
  const uint32_t bits = std::isnan(number) ? 0x7fc00000u : std::bit_cast<uint32_t>(number);
  hash.update(&bits, sizeof bits);
}

std::string logprobs_hash(const ordered_json& answer) {
  text::Blake3 hash;
  if (!answer.contains("logprobs") && !answer.contains("embedding")) return {};
  for (const char* field : {"logprobs", "embedding"}) {
    if (!answer.contains(field)) continue;
    for (const ordered_json& value : answer[field]) add_float(hash, value);
  }
  for (const ordered_json& likely : answer.value("top_logprobs", ordered_json::array())) {
    for (const ordered_json& one : likely) {
      const auto id = one["token_id"].get<int32_t>();
      hash.update(&id, sizeof id);
      add_float(hash, one["logprob"]);
    }
  }
  return hash.hex_digest().substr(0, kDigits);
}

// What of a request's answer is shown as evidence.
ordered_json hashes(const std::string& id, const ordered_json& answer, bool equal) {
  ordered_json object = {{"id", id}, {"equal", equal}};
  if (auto hash = tokens_hash(answer); !hash.empty()) object["tokens_hash"] = hash;
  if (auto hash = logprobs_hash(answer); !hash.empty()) object["logprobs_hash"] = hash;
  if (answer.contains("kv_hash")) object["kv_hash"] = answer["kv_hash"].get<std::string>().substr(0, kDigits);
  return object;
}

// Blocks of the longest request, and one more: two long ones never fit together.
int tight_pool(const std::vector<Question>& questions) {
  constexpr int kBlock = 64;  // positions
  size_t longest = 1;
  for (const Question& question : questions) {
    longest = std::max(
        longest, question.request.prompt_token_ids.size() + static_cast<size_t>(question.request.sampling.max_tokens));
  }
  return static_cast<int>(longest) / kBlock + 2;
}

}  // namespace

Trial::Trial(const CellSpec& spec, std::string value, Lab& lab, std::vector<Question> questions)
    : spec_(spec), value_(std::move(value)), lab_(lab), questions_(std::move(questions)), options_(lab.options()) {
  facts_["requests"] = static_cast<int64_t>(questions_.size());
}

Result<void> Trial::prepare() {
  std::vector<Setting> settings = spec_.settings;
  if (!spec_.option.empty()) settings.push_back({spec_.option, value_});
  for (const Setting& setting : settings) {
    EADEM_RETURN_IF_ERROR(apply(setting, options_));
    if (setting.name == "kv_blocks" && setting.value == kTightPool) options_.kv_blocks = tight_pool(questions_);
  }
  return {};
}

int Trial::number() const { return std::stoi(value_); }

std::vector<Request> Trial::requests() const {
  std::vector<Request> all;
  for (const Question& question : questions_) all.push_back(question.request);
  return all;
}

Result<Engine> Trial::open() {
  EADEM_ASSIGN_OR_RETURN(Engine engine, lab_.open(options_));
  count("engines");
  at_least("threads", engine.info().threads);
  const bool asked = options_.isa != "auto" && engine.info().isa.starts_with(options_.isa);
  if (asked) at_least("is_kernel_set", 1);
  return engine;
}

Result<std::vector<std::vector<Completion>>> Trial::run(Engine& engine, std::span<const Request> requests,
                                                        const Company& company) {
  const Counters before = engine.counters();
  auto answers = run_together(engine, requests, lab_.workshop(), company);
  accept::count(facts_, before, engine.counters());
  return answers;
}

ordered_json Trial::json_of(const Request& request, const Completion& answer) {
  const auto engine = lab_.plain();
  EADEM_CHECK(engine.ok());  // it answered before
  ordered_json object = api::to_json(*engine.value(), request, answer);
  if (!answer.embedding.empty()) object["embedding"] = answer.embedding;
  return object;
}

Result<void> Trial::hold(const Question& question, const Completion& is) {
  EADEM_ASSIGN_OR_RETURN(const auto* const was, lab_.alone(question.request));
  hold(question.id, json_of(question.request, was->front()), json_of(question.request, is), question.level);
  count("drawn_tokens", static_cast<int64_t>(is.tokens.size()));
  count("cached_requests", is.cached_tokens > 0 ? 1 : 0);
  return {};
}

Result<void> Trial::hold(const std::string& id, const Request& request, const Completion& is) {
  return hold({id, Level::kBits, request}, is);
}

void Trial::hold(const std::string& id, const ordered_json& was, const ordered_json& is, Level level) {
  const auto declared = parse_level(spec_.cell.level);
  EADEM_CHECK(declared.ok());
  level = std::max(level, declared.value());
  ordered_json difference;
  if (was.contains("embedding")) {
    if (hashes(id, was, true) != hashes(id, is, true))
      difference = {
          {"field", "embedding"}, {"was", {{"value", logprobs_hash(was)}}}, {"is", {{"value", logprobs_hash(is)}}}};
  } else {
    difference = audit::first_difference(was, is, level);
  }
  ++compared_;
  const bool equal = difference.is_null();
  equal_ += equal ? 1 : 0;
  requests_.push_back(hashes(id, is, equal));
  if (equal) return;
  requests_.back()["was"] = hashes(id, was, false);
  if (!first_difference_.is_null()) return;
  first_difference_ = {{"request", id}, {"value", value_}};
  first_difference_.update(difference);
}

std::string Trial::unproved() const {
  Facts facts = facts_;
  facts["compared"] = compared_, facts["different"] = compared_ - equal_;
  for (const Condition& condition : spec_.proof) {
    const ordered_json found = condition.check(facts, value_);
    if (!found["held"].get<bool>())
      return "path not reached: " + condition.text + " does not hold (" + found["counted"].dump() + " counted, " +
             found["wanted"].dump() + " wanted) at " + value_;
  }
  return compared_ > 0 ? "" : "path not reached: nothing was compared at " + value_;
}

ordered_json Trial::evidence(double seconds) const {
  Facts facts = facts_;
  facts["compared"] = compared_, facts["different"] = compared_ - equal_;
  ordered_json counters = ordered_json::object(), proof = ordered_json::array();
  for (const auto& [name, number] : facts) {
    if (number != 0) counters[name] = number;
  }
  for (const Condition& condition : spec_.proof) proof.push_back(condition.check(facts, value_));
  return {{"value", value_},      {"compared", compared_},
          {"equal", equal_},      {"seconds", std::round(seconds * 1000) / 1000},
          {"counters", counters}, {"proof", proof},
          {"requests", requests_}};
}

}  // namespace eadem::audit::accept
