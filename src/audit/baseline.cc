#include "audit/baseline.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>

#include "api/request_json.h"
#include "audit/files.h"
#include "text/blake3.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "eadem-baseline-1";
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

void add_float(text::Blake3& hash, float value) {
  const uint32_t bits = std::isnan(value) ? 0x7fc00000u : std::bit_cast<uint32_t>(value);
  hash.update(&bits, sizeof bits);
}

void add_text(text::Blake3& hash, std::string_view text) {
  hash.update(std::to_string(text.size()) + ":");
  hash.update(text);
}

std::string hash_logprobs(const std::vector<SampledToken>& tokens) {
  text::Blake3 hash;
  for (const SampledToken& token : tokens) {
    add_float(hash, token.logprob);
    const auto count = static_cast<uint32_t>(token.top.size());
    hash.update(&count, sizeof count);
    for (const TokenLogprob& entry : token.top) {
      hash.update(&entry.token, sizeof entry.token);
      add_float(hash, entry.logprob);
    }
  }
  return hash.hex_digest();
}

std::string hash_tokens(const std::vector<int32_t>& tokens) {
  text::Blake3 hash;
  hash.update(tokens.data(), tokens.size() * sizeof(int32_t));
  return hash.hex_digest();
}

// Nine digits restore every float32.
ordered_json number(float value) {
  if (std::isnan(value)) return nullptr;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 9).ptr;
  double rounded = 0;
  std::from_chars(text.data(), end, rounded);
  return rounded;
}

// Bytes that are no UTF-8 become U+FFFD, as in every answer's JSON.
std::string valid(const std::string& text) {
  return ordered_json::parse(ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

std::vector<int32_t> ids_of(const RecordedAnswer& answer) {
  std::vector<int32_t> ids;
  for (const SampledToken& token : answer.tokens) ids.push_back(token.token);
  return ids;
}

ordered_json logprobs_of(const RecordedAnswer& answer) {
  ordered_json values = ordered_json::array();
  for (const SampledToken& token : answer.tokens) values.push_back(number(token.logprob));
  return values;
}

// For each step [[token id, logprob], ...], best first.
ordered_json top_of(const RecordedAnswer& answer) {
  ordered_json values = ordered_json::array();
  for (const SampledToken& token : answer.tokens) {
    ordered_json top = ordered_json::array();
    for (const TokenLogprob& entry : token.top) top.push_back({entry.token, number(entry.logprob)});
    values.push_back(std::move(top));
  }
  return values;
}

ordered_json to_line(const RecordedAnswer& answer, bool brief) {
  ordered_json object = {{"id", answer.id}};
  if (!answer.not_run.empty()) {
    object["not_run"] = answer.not_run;
    return object;
  }
  object["index"] = answer.index;
  object["prompt_tokens"] = answer.prompt_tokens;
  object["prompt_hash"] = answer.prompt_hash;
  object["token_ids"] = ids_of(answer);
  if (!brief) {
    object["logprobs"] = logprobs_of(answer);
    object["top_logprobs"] = top_of(answer);
  }
  object["logprobs_hash"] = answer.logprobs_hash;
  object["text"] = answer.text;
  object["finish_reason"] = answer.finish_reason;
  return object;
}

float float_of(const ordered_json& value) { return value.is_null() ? NAN : static_cast<float>(value.get<double>()); }

// Throws where a field is missing or of another type.
void read_answer(const ordered_json& object, bool brief, RecordedAnswer& answer) {
  answer.id = object.at("id").get<std::string>();
  if (object.contains("not_run")) {
    answer.not_run = object.at("not_run").get<std::string>();
    return;
  }
  answer.index = object.at("index").get<int>();
  answer.prompt_tokens = object.at("prompt_tokens").get<uint64_t>();
  answer.prompt_hash = object.at("prompt_hash").get<std::string>();
  for (const auto& id : object.at("token_ids")) answer.tokens.push_back({.token = id.get<int32_t>(), .top = {}});
  answer.logprobs_hash = object.at("logprobs_hash").get<std::string>();
  answer.text = object.at("text").get<std::string>();
  answer.finish_reason = object.at("finish_reason").get<std::string>();
  if (brief) return;
  const ordered_json& logprobs = object.at("logprobs");
  const ordered_json& tops = object.at("top_logprobs");
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    answer.tokens[i].logprob = float_of(logprobs.at(i));
    for (const auto& entry : tops.at(i)) {
      answer.tokens[i].top.push_back({.token = entry.at(0).get<int32_t>(), .logprob = float_of(entry.at(1))});
    }
  }
}

Result<void> check_answer(const RecordedAnswer& answer, bool brief) {
  if (!answer.not_run.empty() || brief) return {};
  if (hash_logprobs(answer.tokens) == answer.logprobs_hash) return {};
  return Error{"its logprobs do not have the 'logprobs_hash' that stands beside them: the file was changed"};
}

Result<Baseline> parse(const ordered_json& file, const Corpus& corpus) try {
  Baseline baseline;
  if (!file.is_object() || !file.contains("format") || file["format"] != kFormat) {
    return Error{"is no baseline of this program (format " + std::string(kFormat) + "): record one with --record"};
  }
  baseline.date = file.at("date").get<std::string>();
  baseline.program = file.at("program").get<std::string>();
  baseline.model = file.at("model").get<std::string>();
  baseline.numerics = file.at("numerics").get<std::string>();
  baseline.mode = file.at("mode").get<std::string>();
  baseline.identity = file.at("identity").get<std::string>();
  baseline.identity_parts = file.at("identity_parts");
  baseline.deployment = file.at("deployment").get<std::string>();
  baseline.deployment_parts = file.at("deployment_parts");
  baseline.brief = file.at("brief").get<bool>();
  baseline.corpus_name = file.at("corpus").at("name").get<std::string>();
  baseline.corpus_digest = file.at("corpus").at("digest").get<std::string>();
  if (!baseline.identity_parts.is_object() || !baseline.deployment_parts.is_object() ||
      !file.at("answers").is_array()) {
    return Error{"has a field of another type than --record writes: record it anew"};
  }
  if (baseline.corpus_digest != corpus.digest) {
    return Error{"is of the corpus " + baseline.corpus_name + " with the digest " + baseline.corpus_digest +
                 ", and this is " + corpus.name + " with " + corpus.digest +
                 ": name that corpus with --corpus, or record a baseline of this one"};
  }
  std::map<std::string, const CorpusRequest*> requests;
  for (const CorpusRequest& request : corpus.requests) requests[request.id] = &request;
  for (const ordered_json& entry : file.at("answers")) {
    RecordedAnswer answer;
    read_answer(entry, baseline.brief, answer);
    const auto request = requests.find(answer.id);
    if (request == requests.end()) return Error{"answers '" + answer.id + "', which the corpus does not ask"};
    answer.category = request->second->category;
    answer.level = request->second->level;
    if (auto good = check_answer(answer, baseline.brief); !good.ok()) {
      return Error{"answer '" + answer.name() + "': " + good.error().message};
    }
    baseline.answers.push_back(std::move(answer));
  }
  if (baseline.answers.empty()) return Error{"holds no answer: record it anew"};
  return baseline;
} catch (const ordered_json::exception&) {
  return Error{"misses a field, or has one of another type than --record writes: record it anew"};
}

std::string now() {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

RecordedAnswer answer_to(const CorpusRequest& request) {
  RecordedAnswer answer;
  answer.id = request.id;
  answer.category = request.category;
  answer.level = request.level;
  return answer;
}

// What one request brought.
struct Slot {
  std::vector<int32_t> prompt;
  std::vector<Completion> answers;
  std::string not_run;
  bool done = false;
};

std::vector<RecordedAnswer> recorded(const CorpusRequest& request, Slot& slot) {
  for (const Completion& completion : slot.answers) {
    if (completion.finish_reason == FinishReason::kError && slot.not_run.empty()) slot.not_run = completion.error;
  }
  RecordedAnswer answer = answer_to(request);
  if (!slot.not_run.empty()) {
    answer.not_run = valid(slot.not_run);
    return {answer};
  }
  std::vector<RecordedAnswer> answers;
  for (Completion& completion : slot.answers) {
    answer.index = completion.index;
    answer.prompt_tokens = slot.prompt.size();
    answer.prompt_hash = hash_tokens(slot.prompt);
    answer.tokens = std::move(completion.tokens);
    answer.logprobs_hash = hash_logprobs(answer.tokens);
    answer.text = valid(completion.text);
    answer.finish_reason = to_string(completion.finish_reason);
    answers.push_back(answer);
  }
  return answers;
}

// False: the request cannot be asked, and the slot says why.
bool submit(Engine& engine, const CorpusRequest& asked, Slot& slot) {
  auto request = to_request(engine, asked);
  if (request.ok()) {
    request.value().sampling.logprobs = kBaselineTop;
    slot.prompt = request.value().prompt_token_ids;
    Callbacks callbacks;
    callbacks.on_done = [&slot](std::vector<Completion> answers) {
      slot.answers = std::move(answers);
      slot.done = true;
    };
    const auto ticket = engine.submit(std::move(request).value(), std::move(callbacks));
    if (ticket.ok()) return true;
    slot.not_run = ticket.error().message;
  } else {
    slot.not_run = request.error().message;
  }
  slot.done = true;
  return false;
}

}  // namespace

std::string RecordedAnswer::digest() const {
  text::Blake3 hash;
  add_text(hash, name());
  add_text(hash, name_of(level));
  add_text(hash, not_run.empty() ? "answered" : "not run");
  if (not_run.empty()) {
    add_text(hash, prompt_hash);
    add_text(hash, hash_tokens(ids_of(*this)));
    if (level == Level::kBits) add_text(hash, logprobs_hash);
    add_text(hash, text);
    add_text(hash, finish_reason);
  }
  return hash.hex_digest();
}

ordered_json RecordedAnswer::comparable(bool brief) const {
  ordered_json object = {{"token_ids", ids_of(*this)}};
  if (brief) {
    object["logprobs_hash"] = logprobs_hash;
  } else {
    object["logprobs"] = logprobs_of(*this);
    object["top_logprobs"] = top_of(*this);
  }
  object["text"] = text;
  object["finish_reason"] = finish_reason;
  return object;
}

std::string Baseline::digest() const {
  text::Blake3 hash;
  add_text(hash, kFormat);
  add_text(hash, corpus_digest);
  add_text(hash, identity);
  for (const RecordedAnswer& answer : answers) add_text(hash, answer.digest());
  return hash.hex_digest();
}

Baseline record(Engine& engine, const Corpus& corpus, const std::vector<const CorpusRequest*>& requests,
                int most_under_way, const std::function<bool(size_t done, size_t total)>& tick) {
  Baseline baseline;
  baseline.date = now();
  baseline.numerics = engine.info().numerics;
  baseline.mode = engine.info().mode;
  baseline.identity = engine.identity();
  baseline.identity_parts = ordered_json::parse(engine.identity_parts());
  baseline.deployment = engine.deployment();
  baseline.deployment_parts = ordered_json::parse(engine.deployment_parts());
  baseline.corpus_name = corpus.name;
  baseline.corpus_digest = corpus.digest;
  std::vector<std::unique_ptr<Slot>> slots;
  size_t first = 0;  // not done
  while (first < requests.size()) {
    while (slots.size() < requests.size() && slots.size() - first < static_cast<size_t>(most_under_way)) {
      slots.push_back(std::make_unique<Slot>());
      submit(engine, *requests[slots.size() - 1], *slots.back());
    }
    if (!slots[first]->done) engine.step();
    for (; first < slots.size() && slots[first]->done; ++first) {
      for (RecordedAnswer& answer : recorded(*requests[first], *slots[first])) {
        baseline.answers.push_back(std::move(answer));
      }
      *slots[first] = {};
    }
    if (!tick(first, requests.size())) break;
  }
  if (first < requests.size()) baseline.answers.clear();
  return baseline;
}

Result<Baseline> read_baseline(const std::string& path, const Corpus& corpus) {
  auto text = read_whole_file(path, kMostBytes);
  if (!text.ok()) return Error{"baseline " + path + " " + text.error().message};
  auto file = api::parse_line(text.value());
  if (!file.ok()) return Error{"baseline " + path + " is " + file.error().message + ": record it anew"};
  auto baseline = parse(file.value(), corpus);
  return baseline.ok() ? std::move(baseline) : Error{"baseline " + path + " " + baseline.error().message};
}

Result<void> write_baseline(const std::string& path, const Baseline& baseline) {
  const ordered_json header = {{"format", kFormat},
                               {"date", baseline.date},
                               {"program", baseline.program},
                               {"model", baseline.model},
                               {"numerics", baseline.numerics},
                               {"mode", baseline.mode},
                               {"identity", baseline.identity},
                               {"identity_parts", baseline.identity_parts},
                               {"deployment", baseline.deployment},
                               {"deployment_parts", baseline.deployment_parts},
                               {"corpus", {{"name", baseline.corpus_name}, {"digest", baseline.corpus_digest}}},
                               {"brief", baseline.brief}};
  std::string text = header.dump(1);
  text.resize(text.rfind('}') - 1);  // its last line break too
  text += ",\n \"answers\": [\n";
  for (size_t i = 0; i < baseline.answers.size(); ++i) {
    text +=
        "  " + to_line(baseline.answers[i], baseline.brief).dump() + (i + 1 < baseline.answers.size() ? ",\n" : "\n");
  }
  return write_whole_file(path, text + " ]\n}\n");
}

}  // namespace eadem::audit
