// Ways that vary what is computed at the same time: the batch, its order, its members, when they come and go.
#include <algorithm>
#include <numeric>

#include "audit/accept/trial.h"
#include "audit/accept/ways_of.h"

namespace eadem::audit::accept {
namespace {

// Answers to all questions, in their order; there may be several rounds of them.
Result<void> hold_all(Trial& trial, const std::vector<std::vector<Completion>>& answers) {
  const auto& questions = trial.questions();
  for (size_t i = 0; i < answers.size(); ++i)
    EADEM_RETURN_IF_ERROR(trial.hold(questions[i % questions.size()], answers[i].front()));
  return {};
}

}  // namespace

// All at once, whatever the option says. A batch that has room for more gets them again, so that it is full.
Result<void> run_at_once(Trial& trial) {
  const auto& questions = trial.questions();
  std::vector<Request> requests = trial.requests();
  if (trial.spec().option == "max_batch") {
    const auto room = static_cast<size_t>(trial.options().max_batch);
    for (size_t i = 0; requests.size() < room; ++i) requests.push_back(questions[i % questions.size()].request);
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  return hold_all(trial, answers);
}

bool is_order(std::string_view value) {
  return value == "reversed" || value == "rotated" || value == "odd first" || value == "longest first";
}

// The same requests in another order: each at other places of its batches.
Result<void> run_in_order(Trial& trial) {
  const auto& questions = trial.questions();
  std::vector<size_t> order(questions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto length = [&](size_t i) { return questions[i].request.prompt_token_ids.size(); };
  if (trial.value() == "reversed") std::reverse(order.begin(), order.end());
  if (trial.value() == "rotated") std::rotate(order.begin(), order.begin() + (order.size() > 2 ? 2 : 1), order.end());
  if (trial.value() == "odd first")
    std::stable_partition(order.begin(), order.end(), [](size_t i) { return i % 2 == 1; });
  if (trial.value() == "longest first")
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<Request> requests;
  for (size_t place = 0; place < order.size(); ++place) {
    requests.push_back(questions[order[place]].request);
    if (order[place] != place) trial.count("moved");
  }
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests));
  for (size_t place = 0; place < order.size(); ++place)
    EADEM_RETURN_IF_ERROR(trial.hold(questions[order[place]], answers[place].front()));
  return {};
}

bool is_count(std::string_view value) {
  return !value.empty() && value.size() < 4 &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A request more every so many steps: each joins sequences that are well under way.
Result<void> run_arriving(Trial& trial) {
  Company company;
  for (size_t i = 0; i < trial.questions().size(); ++i)
    company.arrivals.push_back(i * static_cast<size_t>(trial.number()));
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, trial.requests(), company));
  return hold_all(trial, answers);
}

namespace {

constexpr std::string_view kNeighbours[] = {
    "the same prompt", "noise",    "one token", "long",        "greedy",    "hot",      "penalised",   "biased",
    "scored",          "embedded", "cancelled", "out of time", "preferred", "put last", "with a guide"};

// A request that differs from the one it stands beside in the way that the value names.
Request neighbour(Trial& trial, const Request& beside, uint64_t number) {
  const std::string& kind = trial.value();
  Request request;
  request.prompt_token_ids = trial.lab().noise(12 + number % 5, 77 + number);
  request.sampling.max_tokens = 6;
  request.sampling.seed = 1000 + number;
  request.sampling.ignore_eos = true;
  if (kind == "the same prompt") request = beside, request.sampling.seed = 1000 + number;
  if (kind == "one token") request.prompt_token_ids.resize(1);
  if (kind == "long") request.prompt_token_ids = trial.lab().noise(150 + 10 * (number % 3), number);
  if (kind == "greedy") request.sampling.temperature = 0.0f;
  if (kind == "hot") request.sampling.temperature = 3.0f, request.sampling.top_p = 0.5f, request.sampling.top_k = 40;
  if (kind == "penalised") request.sampling.repetition_penalty = 1.4f, request.sampling.frequency_penalty = 1.5f;
  if (kind == "biased") request.sampling.logit_bias = {{request.prompt_token_ids[0], 90.0f}};
  if (kind == "scored") request.sampling.prompt_logprobs = 3, request.sampling.logprobs = 5;
  if (kind == "embedded") request.pooling = number % 2 == 0 ? Pooling::kMean : Pooling::kLast;
  if (kind == "preferred") request.priority = -5;
  if (kind == "put last") request.priority = 5;
  if (kind == "with a guide") request.sampling.guide = Guide{Guide::Kind::kRegex, "[a-e]{4,12}"};
  if (kind == "cancelled" || kind == "out of time") request.sampling.max_tokens = 64;
  if (kind == "out of time") request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  return request;
}

}  // namespace

bool is_neighbour(std::string_view value) {
  return std::find(std::begin(kNeighbours), std::end(kNeighbours), value) != std::end(kNeighbours);
}

// Between any two requests of the corpus a neighbour.
Result<void> run_beside(Trial& trial) {
  std::vector<Request> requests;
  Company company;
  uint64_t number = 0;
  EADEM_ASSIGN_OR_RETURN(Engine engine, trial.open());
  for (const Question& question : trial.questions()) {
    requests.push_back(neighbour(trial, question.request, number++));
    Callbacks callbacks;
    // Ended by whoever asked for it, after some tokens.
    if (trial.value() == "cancelled")
      callbacks.on_token = [left = 3](int, const SampledToken&, std::string_view) mutable { return --left > 0; };
    company.callbacks.push_back(std::move(callbacks));
    requests.push_back(question.request);
    company.callbacks.emplace_back();
  }
  if (trial.value() == "with a guide" && !engine.check(requests.front()).ok()) {
    trial.not_testable("the model's tokenizer cannot hold a guide");
    return {};
  }
  EADEM_ASSIGN_OR_RETURN(const auto answers, trial.run(engine, requests, company));
  trial.count("neighbours", static_cast<int64_t>(number));
  for (size_t i = 0; i < trial.questions().size(); ++i) {
    const auto drawn = static_cast<int>(answers[2 * i].front().tokens.size());
    trial.count("left_early", drawn < requests[2 * i].sampling.max_tokens ? 1 : 0);
    EADEM_RETURN_IF_ERROR(trial.hold(trial.questions()[i], answers[2 * i + 1].front()));
  }
  return {};
}

}  // namespace eadem::audit::accept
