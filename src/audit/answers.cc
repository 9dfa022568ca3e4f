#include "audit/answers.h"

#include <fstream>

#include "api/request_json.h"

namespace eadem::audit {
namespace {

using nlohmann::ordered_json;

constexpr double kMasked = -9999.0;  // OpenAI's objects must hold numbers

// A member of an object, or null.
const ordered_json& at(const ordered_json& object, const char* field) {
  static const ordered_json none;
  if (!object.is_object()) return none;
  const auto found = object.find(field);
  return found == object.end() ? none : *found;
}

std::string text_of(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string plain(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? std::string() : text_of(value);
}

std::optional<uint64_t> seed_of(const ordered_json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer() && value.get<int64_t>() >= 0) return static_cast<uint64_t>(value.get<int64_t>());
  return std::nullopt;
}

// Nothing in a greedy answer depends on its seed: any two answers to such a request are partners.
std::optional<uint64_t> drawn_with(const ordered_json& sampling, const ordered_json& seed) {
  const ordered_json& temperature = at(sampling, "temperature");
  return temperature.is_number() && temperature.get<double>() == 0.0 ? 0 : seed_of(seed);
}

// Sampling without what tells one answer of a request from another.
std::string sampling_key(ordered_json sampling) {
  if (!sampling.is_object()) return {};
  for (const char* field : {"seed", "n"}) sampling.erase(field);
  return text_of(nlohmann::json(sampling));  // fields in alphabetical order
}

ordered_json unmasked(const ordered_json& logprobs) {
  ordered_json values = ordered_json::array();
  for (const ordered_json& value : logprobs) values.push_back(value == kMasked ? ordered_json() : value);
  return values;
}

class Reader {
 public:
  Reader(const std::string& path, const std::vector<std::string>& metrics) : metrics_(metrics) { file_.path = path; }

  Result<AnswerFile> read();

 private:
  bool take(const ordered_json& line);
  void take_answer(const ordered_json& line);
  void take_reply(const std::string& id, const ordered_json& outer, const ordered_json& reply);
  void take_choice(const ordered_json& choice, Answer& answer);
  void take_metrics(const ordered_json& object, Answer& answer);
  void note(const ordered_json& value, std::set<std::string>& names) {
    if (value.is_string()) names.insert(value.get<std::string>());
  }

  AnswerFile file_;
  const std::vector<std::string>& metrics_;
};

void Reader::take_metrics(const ordered_json& object, Answer& answer) {
  const auto take = [&](const std::string& name) {
    const ordered_json& value = at(object, name.c_str());
    if (value.is_number() || value.is_boolean())
      answer.metrics[name] = value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
  };
  for (const std::string& name : metrics_) take(name);
  if (!metrics_.empty()) return;
  for (const char* name : kMetricNames) take(name);
}

void Reader::take_answer(const ordered_json& line) {
  Answer answer;
  answer.id = plain(at(line, "id"));
  const ordered_json& prompt = line.contains("prompt_token_ids") ? line["prompt_token_ids"]
                               : line.contains("prompt")         ? line["prompt"]
                                                                 : at(line, "messages");
  if (!prompt.is_null()) answer.request = text_of(prompt) + sampling_key(at(line, "sampling"));
  answer.name = !answer.id.empty() ? answer.id : plain(prompt).substr(0, 80);
  answer.seed = drawn_with(at(line, "sampling"), at(line, "seed"));
  for (const char* field : {"token_ids", "logprobs", "top_logprobs", "prompt_logprobs", "prompt_top_logprobs", "text",
                            "finish_reason", "kv_hash"}) {
    if (line.contains(field)) answer.fields[field] = line[field];
  }
  take_metrics(line, answer);
  note(at(line, "fingerprint"), file_.fingerprints);
  note(at(line, "numerics"), file_.numerics);
  file_.answers.push_back(std::move(answer));
}

void Reader::take_choice(const ordered_json& choice, Answer& answer) {
  ordered_json& fields = answer.fields;
  const ordered_json& logprobs = at(choice, "logprobs");
  if (choice.contains("message")) {
    fields["text"] = plain(at(choice["message"], "content"));
    if (const ordered_json& calls = at(choice["message"], "tool_calls"); !calls.is_null())
      fields["text"] = fields["text"].get<std::string>() + text_of(calls);
  } else {
    fields["text"] = plain(at(choice, "text"));
  }
  if (choice.contains("finish_reason")) fields["finish_reason"] = choice["finish_reason"];
  if (const ordered_json& content = at(logprobs, "content"); content.is_array()) {
    ordered_json numbers = ordered_json::array(), tops = ordered_json::array(), tokens = ordered_json::array();
    for (const ordered_json& token : content) {
      numbers.push_back(at(token, "logprob"));
      tops.push_back(at(token, "top_logprobs"));
      tokens.push_back(at(token, "token"));
    }
    fields["logprobs"] = unmasked(numbers);
    fields["top_logprobs"] = tops;
    fields["token_ids"] = tokens;
  } else if (const ordered_json& numbers = at(logprobs, "token_logprobs"); numbers.is_array()) {
    fields["logprobs"] = unmasked(numbers);
    fields["token_ids"] = at(logprobs, "tokens");
    if (logprobs.contains("top_logprobs")) fields["top_logprobs"] = logprobs["top_logprobs"];
  }
  if (choice.contains("token_ids") && choice["token_ids"].is_array()) fields["token_ids"] = choice["token_ids"];
}

void Reader::take_reply(const std::string& id, const ordered_json& outer, const ordered_json& reply) {
  const ordered_json& about = at(reply, "eadem");
  const ordered_json& seeds = at(about, "answer_seeds");
  for (const ordered_json& choice : reply["choices"]) {
    Answer answer;
    answer.id = id;
    const ordered_json& hash = at(about, "prompt_hash");
    const ordered_json& prompt = choice.contains("prompt_token_ids") ? choice["prompt_token_ids"] : hash;
    if (!prompt.is_null()) answer.request = text_of(prompt) + sampling_key(at(about, "sampling"));
    answer.name = !id.empty() ? id : plain(prompt).substr(0, 80);
    const size_t index = choice.is_object() ? seed_of(at(choice, "index")).value_or(0) : 0;
    if (seeds.is_array() && index < seeds.size()) answer.seed = drawn_with(at(about, "sampling"), seeds[index]);
    take_choice(choice, answer);
    take_metrics(outer, answer);
    file_.answers.push_back(std::move(answer));
  }
  note(at(about, "numerics"), file_.numerics);
  note(about.is_object() ? at(about, "fingerprint") : at(reply, "system_fingerprint"), file_.fingerprints);
}

// False where the line is nothing of the kind.
bool Reader::take(const ordered_json& line) {
  const ordered_json& body = at(at(line, "response"), "body");
  const ordered_json& reply = body.is_object() ? body : line;
  if (at(reply, "choices").is_array()) {
    // A reply's own id is another each time.
    take_reply(plain(line.contains("custom_id") ? line["custom_id"] : at(line, "request_id")), line, reply);
    return true;
  }
  if (line.contains("error") && !line["error"].is_null() && !line.contains("token_ids")) {
    ++file_.skipped;
    return true;
  }
  const size_t before = file_.answers.size();
  take_answer(line);
  const Answer& answer = file_.answers.back();
  const bool told = answer.fields.is_object() || !answer.metrics.empty();
  if (told && !(answer.id.empty() && answer.request.empty())) return true;
  file_.answers.resize(before);
  return false;
}

Result<AnswerFile> Reader::read() {
  std::ifstream file(file_.path);
  if (!file) return Error{"cannot read " + file_.path + ": check the path and its permissions"};
  int64_t number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = file_.path + " line " + std::to_string(number) + ": ";
    auto line = api::parse_line(text);
    if (!line.ok()) return Error{where + line.error().message};
    if (!line.value().is_object()) return Error{where + "not a JSON object"};
    if (!take(line.value()))
      return Error{where + "no answer: it needs an id or a prompt, and token_ids, text or a metric (see --metric)"};
  }
  if (file.bad()) return Error{"cannot read " + file_.path + " to its end"};
  if (file_.answers.empty()) return Error{file_.path + " holds no answer"};
  return std::move(file_);
}

}  // namespace

Result<AnswerFile> read_answers(const std::string& path, const std::vector<std::string>& metrics) try {
  return Reader(path, metrics).read();
} catch (const nlohmann::json::exception&) {  // a field of another type than the format has
  return Error{path + ": a field has a type that answers do not have"};
}

}  // namespace eadem::audit
