// Ways that vary what a request asks besides its answer: several answers, scoring, forced tokens, logprobs, stop
// strings, embeddings, seeds, streaming. What is left of the answer must be what it was.
#include <algorithm>

#include "api/request_json.h"
#include "audit/accept/trial.h"
#include "audit/accept/ways_of.h"

namespace eadem::audit::accept {
namespace {

using nlohmann::ordered_json;

ordered_json only(const ordered_json& answer, std::initializer_list<const char*> fields) {
  ordered_json object = ordered_json::object();
  for (const char* field : fields) {
    if (answer.contains(field)) object[field] = answer[field];
  }
  return object;
}

// Questions whose answers are drawn freely from raw logits.
bool is_free(const Question& question) {
  return !question.request.sampling.guide && !question.request.sampling.processed_logprobs;
}

int at_once(std::string_view value) { return value == "at once" ? 8 : 1; }

}  // namespace

bool is_several(std::string_view value) { return value.size() == 1 && value[0] >= '2' && value[0] <= '9'; }

// Each answer of a request for several is what its own seed gives alone.
Result<void> run_several(Trial& trial) {
  std::vector<Request> requests = trial.requests();
  for (Request& request : requests) request.sampling.n = trial.number();
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Completion& answer : answers[i]) {
      Request single = trial.questions()[i].request;
      single.sampling.seed = answer.seed;
      trial.count("answers");
      EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i].id + "/" + std::to_string(answer.index), single, answer));
    }
  }
  return {};
}

bool is_company(std::string_view value) { return value == "alone" || value == "at once"; }

// The answer's tokens behind the prompt, scored as one text.
Result<void> run_scored(Trial& trial) {
  trial.options().max_batch = at_once(trial.value());
  std::vector<Request> requests;
  std::vector<const Question*> questions;
  for (const Question& question : trial.questions()) {
    if (!is_free(question)) continue;
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
    Request request = question.request;
    for (const SampledToken& token : was->front().tokens) request.prompt_token_ids.push_back(token.token);
    request.sampling = {};
    request.sampling.max_tokens = 0;
    request.sampling.seed = 0;
    request.sampling.prompt_logprobs = question.request.sampling.logprobs;
    requests.push_back(std::move(request));
    questions.push_back(&question);
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& asked = questions[i]->request;
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(asked));
    const auto& scored = answers[i].front().prompt_tokens;
    Completion is;
    is.tokens.assign(
        scored.begin() + static_cast<std::ptrdiff_t>(std::min(scored.size(), asked.prompt_token_ids.size())),
        scored.end());
    trial.count("scored_tokens", static_cast<int64_t>(is.tokens.size()));
    const auto fields = {"token_ids", "logprobs", "top_logprobs"};
    trial.hold(questions[i]->id, only(trial.json_of(asked, was->front()), fields),
               only(trial.json_of(asked, is), fields), questions[i]->level);
  }
  return {};
}

bool is_share(std::string_view value) { return value == "half" || value == "all"; }

// The answer's own tokens are given, half of them or all: what it tells of them, and what it goes on with, is the same.
Result<void> run_forced(Trial& trial) {
  std::vector<Request> requests;
  std::vector<const Question*> questions;
  for (const Question& question : trial.questions()) {
    if (!is_free(question)) continue;
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
    const auto& tokens = was->front().tokens;
    const size_t given = trial.value() == "half" ? tokens.size() / 2 : tokens.size();
    if (given == 0) continue;
    requests.push_back(question.request);
    for (size_t i = 0; i < given; ++i) requests.back().sampling.golden_token_ids.push_back(tokens[i].token);
    questions.push_back(&question);
    trial.count("forced_tokens", static_cast<int64_t>(given));
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) EADEM_RETURN_IF_ERROR(trial.hold(*questions[i], answers[i].front()));
  return {};
}

bool is_logprobs(std::string_view value) {
  return value == "none" || value == "0" || value == "20" || value == "of the prompt" || value == "processed";
}

// What is told of an answer does not change it.
Result<void> run_logprobs(Trial& trial) {
  std::vector<Request> requests = trial.requests();
  for (Request& request : requests) {
    SamplingParams& sampling = request.sampling;
    if (trial.value() == "none") sampling.logprobs = -1;
    if (trial.value() == "0") sampling.logprobs = 0;
    if (trial.value() == "20") sampling.logprobs = 20;
    if (trial.value() == "of the prompt") sampling.prompt_logprobs = 1;
    if (trial.value() == "processed") sampling.processed_logprobs = true;
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  const bool same_numbers = trial.value() != "none" && trial.value() != "processed";
  for (size_t i = 0; i < requests.size(); ++i) {
    const Question& question = trial.questions()[i];
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
    ordered_json before = trial.json_of(question.request, was->front());
    ordered_json now = trial.json_of(requests[i], answers[i].front());
    before = only(before, {"token_ids", same_numbers ? "logprobs" : "text", "text", "finish_reason", "kv_hash"});
    now = only(now, {"token_ids", same_numbers ? "logprobs" : "text", "text", "finish_reason", "kv_hash"});
    trial.hold(question.id, before, now, question.level);
  }
  return {};
}

namespace {

// A few letters from the middle of the text; empty where it has none.
std::string stop_of(const std::string& text) {
  for (size_t at = text.size() / 3; at + 3 <= text.size(); ++at) {
    const std::string piece = text.substr(at, 3);
    if (std::all_of(piece.begin(), piece.end(), [](unsigned char c) { return c > 32 && c < 127; })) return piece;
  }
  return {};
}

}  // namespace

// An answer that ends at a stop string is the beginning of the one that goes on, in a batch as alone.
Result<void> run_stopped(Trial& trial) {
  trial.options().max_batch = at_once(trial.value());
  std::vector<Request> requests;
  std::vector<const Question*> questions;
  for (const Question& question : trial.questions()) {
    EADEM_ASSIGN_OR_RETURN(const auto* const was, trial.lab().alone(question.request));
    const std::string stop = stop_of(was->front().text);
    if (stop.empty() || question.request.sampling.guide || !question.request.sampling.stop.empty()) continue;
    requests.push_back(question.request);
    requests.back().sampling.stop = {stop};
    questions.push_back(&question);
  }
  if (requests.empty()) {
    trial.not_testable("no answer of the corpus has three letters in a row: the model's text is none");
    return {};
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    const Completion& is = answers[i].front();
    trial.count("stopped", is.finish_reason == FinishReason::kStop ? 1 : 0);
    EADEM_RETURN_IF_ERROR(trial.hold(questions[i]->id, requests[i], is));
    EADEM_ASSIGN_OR_RETURN(const auto* const whole, trial.lab().alone(questions[i]->request));
    Completion beginning = whole->front();
    beginning.tokens.resize(std::min(beginning.tokens.size(), is.tokens.size()));
    beginning.text = beginning.text.substr(0, beginning.text.find(requests[i].sampling.stop.front()));
    const auto fields = {"token_ids", "logprobs", "top_logprobs", "text"};
    trial.hold(questions[i]->id + "/beginning", only(trial.json_of(requests[i], beginning), fields),
               only(trial.json_of(requests[i], is), fields), questions[i]->level);
  }
  return {};
}

bool is_pooling(std::string_view value) { return value == "mean" || value == "last"; }

Result<void> run_embedded(Trial& trial) {
  std::vector<Request> requests;
  for (const Question& question : trial.questions()) {
    Request request;
    request.prompt_token_ids = question.request.prompt_token_ids;
    request.pooling = trial.value() == "mean" ? Pooling::kMean : Pooling::kLast;
    requests.push_back(std::move(request));
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    if (answers[i].front().embedding.empty()) return Error{"an embedding is empty"};
    trial.count("embeddings");
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i].id, requests[i], answers[i].front()));
  }
  return {};
}

// One prompt under many seeds at once, in another order than they are asked in alone.
Result<void> run_seeds(Trial& trial) {
  constexpr uint64_t kSeeds = 6;
  std::vector<std::pair<std::string, Request>> all;
  for (const Question& question : trial.questions()) {
    if (!is_free(question)) continue;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Request request = question.request;
      request.sampling.temperature = 1.0f;
      request.sampling.top_p = seed % 2 == 0 ? 1.0f : 0.9f;
      request.sampling.seed = 100 + seed;
      EADEM_ASSIGN_OR_RETURN(const auto* const alone, trial.lab().alone(request));
      if (alone->front().tokens.empty()) return Error{"an answer has no token"};
      all.emplace_back(question.id + "/seed-" + std::to_string(100 + seed), std::move(request));
    }
  }
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  if (trial.value() == "reversed") std::reverse(all.begin(), all.end());
  if (trial.value() == "rotated") std::rotate(all.begin(), middle, all.end());
  if (trial.value() == "odd first")
    std::stable_partition(all.begin(), all.end(), [](const auto& one) { return *one.second.sampling.seed % 2 == 1; });
  std::vector<Request> requests;
  for (const auto& [_, request] : all) requests.push_back(request);
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t i = 0; i < all.size(); ++i)
    EADEM_RETURN_IF_ERROR(trial.hold(all[i].first, all[i].second, answers[i].front()));
  return {};
}

bool is_streaming(std::string_view value) { return value == "token by token" || value == "while the next is computed"; }

// What is handed out one by one joins to the whole.
Result<void> run_streamed(Trial& trial) {
  trial.options().async_scheduling = trial.value() == "while the next is computed";
  std::vector<Completion> streamed(trial.questions().size());
  Company company;
  for (Completion& answer : streamed) {
    Callbacks callbacks;
    callbacks.on_token = [&answer](int, const SampledToken& token, std::string_view text) {
      answer.tokens.push_back(token);
      answer.text += text;
      return true;
    };
    company.callbacks.push_back(std::move(callbacks));
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, trial.requests(), company));
  for (size_t i = 0; i < streamed.size(); ++i) {
    trial.count("streamed_tokens", static_cast<int64_t>(streamed[i].tokens.size()));
    streamed[i].finish_reason = answers[i].front().finish_reason;
    streamed[i].kv_hash = answers[i].front().kv_hash;
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], streamed[i]));
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], answers[i].front()));
  }
  return {};
}

}  // namespace eadem::audit::accept
