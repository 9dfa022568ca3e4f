#include "audit/near_tie.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/check.h"

namespace eadem::audit {
namespace {

constexpr int kTop = 8;  // likeliest tokens told of a row: a flip is rarely further down

using Answers = std::vector<Completion>;

// The likeliest token's lead over the best of the others, where `token` is the one in question: negative where another
// is likelier. A token that is not among those told lies below them, and gets the bound.
double lead_of(int32_t token, const SampledToken& row) {
  EADEM_CHECK(row.top.size() >= 2);
  std::optional<double> own;
  if (row.token == token) own = row.logprob;
  for (const TokenLogprob& one : row.top) {
    if (one.token == token) own = one.logprob;
  }
  const TokenLogprob& best_other = row.top[row.top[0].token == token ? 1 : 0];
  return own.value_or(row.top.back().logprob) - double{best_other.logprob};
}

struct Asked {
  Request request;
  NearTiePrompt prompt;
};

// All requests of a run at once, as many side by side as the options allow.
class Round {
 public:
  Round(const NearTieOptions& options, uint64_t done, uint64_t total) : options_(options), done_(done), total_(total) {}

  Result<Answers> run(Engine& engine, const std::vector<Asked>& asked, const std::string& name) {
    Answers answers(asked.size());
    size_t open = asked.size();
    bool ended = false;
    for (size_t i = 0; i < asked.size(); ++i) {
      Callbacks callbacks;
      callbacks.on_done = [&, i](Answers told) {
        answers[i] = std::move(told[0]);
        --open;
        if (options_.progress && !options_.progress(++done_, total_, name)) ended = true;
      };
      auto ticket = engine.submit(asked[i].request, std::move(callbacks));
      if (!ticket.ok()) return Error{asked[i].prompt.id + ": " + ticket.error().message};
    }
    while (open > 0 && !ended && engine.step()) {
    }
    if (ended) return Error{"the measurement was ended before it was done"};
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!answers[i].error.empty()) return Error{asked[i].prompt.id + ": " + answers[i].error};
    }
    return answers;
  }

  uint64_t done() const { return done_; }

 private:
  const NearTieOptions& options_;
  uint64_t done_, total_;
};

// The greedy path, or the golden one, of what the corpus asks.
std::vector<Asked> ask_all(const Engine& engine, const Corpus& corpus, int max_tokens, NearTies& ties) {
  std::vector<Asked> all;
  for (const CorpusRequest& line : corpus.requests) {
    auto request = to_request(engine, line);
    Asked asked;
    asked.prompt.id = line.id, asked.prompt.category = line.category;
    if (request.ok()) {
      SamplingParams greedy;
      greedy.temperature = 0.0f;
      greedy.seed = 0;
      greedy.logprobs = kTop;
      greedy.golden_token_ids = request.value().sampling.golden_token_ids;
      greedy.max_tokens = std::clamp(request.value().sampling.max_tokens, 1, max_tokens);
      asked.prompt.forced = !greedy.golden_token_ids.empty();
      if (asked.prompt.forced) greedy.max_tokens = static_cast<int>(greedy.golden_token_ids.size());
      asked.request = std::move(request).value();
      asked.request.sampling = std::move(greedy);
      asked.request.pooling = Pooling::kNone;
    }
    const auto checked = request.ok() ? engine.check(asked.request) : Result<void>(request.error());
    if (checked.ok()) {
      all.push_back(std::move(asked));
    } else {
      ties.skipped.push_back({line.id, checked.error().message});
    }
  }
  return all;
}

EngineOptions options_of(const NearTieOptions& options, const NearTieRun& run, const char* mode) {
  EngineOptions result = options.engine;
  result.mode = mode;
  result.threads = run.threads;
  result.prefill_chunk = run.rows;
  result.max_batch = std::min(result.max_batch, run.rows);
  result.prefix_cache = false;  // each row is computed by the run that it is told of
  result.recheck_weights = false;
  return result;
}

// The same tokens again, so that the runs can be compared position by position.
void force(std::vector<Asked>& asked, const Answers& answers) {
  for (size_t i = 0; i < asked.size(); ++i) {
    SamplingParams& sampling = asked[i].request.sampling;
    sampling.golden_token_ids.clear();
    for (const SampledToken& token : answers[i].tokens) sampling.golden_token_ids.push_back(token.token);
    sampling.max_tokens = static_cast<int>(answers[i].tokens.size());
    sampling.ignore_eos = true;
  }
}

// Positions of all answers, one after another.
std::vector<SampledToken> flatten(Answers answers) {
  std::vector<SampledToken> all;
  for (Completion& answer : answers) {
    std::move(answer.tokens.begin(), answer.tokens.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::string name_of(const NearTieRun& run) {
  return "threads=" + std::to_string(run.threads) + " rows=" + std::to_string(run.rows);
}

NearTiePosition measure_position(const SampledToken& contract, std::span<const SampledToken> runs) {
  EADEM_CHECK(contract.top.size() >= 2);
  NearTiePosition position;
  position.token = contract.top[0].token;
  position.runner_up = contract.top[1].token;
  position.margin = double{contract.top[0].logprob} - double{contract.top[1].logprob};
  for (size_t i = 0; i < runs.size(); ++i) {
    const double lead = lead_of(position.token, runs[i]);
    position.difference = std::max(position.difference, std::abs(lead - position.margin));
    if (runs[i].top[0].token != position.token) position.flips.push_back(static_cast<int>(i));
  }
  return position;
}

Result<NearTies> find_near_ties(const Corpus& corpus, const NearTieOptions& options) {
  NearTies ties;
  ties.runs = options.runs;
  EADEM_CHECK(!options.runs.empty());
  std::vector<Asked> asked;
  Answers contract;
  const uint64_t rounds = options.runs.size() + 2;
  std::optional<Round> round;
  std::vector<std::string> texts;
  {
    EADEM_ASSIGN_OR_RETURN(Engine engine, Engine::open(options.engine));
    ties.model = options.engine.model, ties.numerics = engine.info().numerics;
    ties.identity = engine.identity(), ties.deployment = engine.deployment();
    asked = ask_all(engine, corpus, options.max_tokens, ties);
    if (asked.empty()) {
      return Error{"no prompt of the corpus can be asked of this model" +
                   (ties.skipped.empty() ? "" : ": " + ties.skipped[0].id + ": " + ties.skipped[0].reason)};
    }
    round.emplace(options, 0, rounds * asked.size());
    EADEM_ASSIGN_OR_RETURN(contract, round->run(engine, asked, "contract"));
    for (int64_t token = 0; token < engine.info().vocab; ++token) {
      const auto text = engine.detokenize(std::vector<int32_t>{static_cast<int32_t>(token)}, false);
      texts.emplace_back(text.ok() ? text.value() : std::string());
    }
  }
  force(asked, contract);
  const auto run_again = [&](const NearTieRun& run, const char* mode) -> Result<std::vector<SampledToken>> {
    EADEM_ASSIGN_OR_RETURN(Engine engine, Engine::open(options_of(options, run, mode)));
    if (engine.info().mode == "free") ties.free_numerics = engine.info().numerics;
    EADEM_ASSIGN_OR_RETURN(Answers answers, round->run(engine, asked, std::string(mode) + " " + name_of(run)));
    for (size_t i = 0; i < answers.size(); ++i) EADEM_CHECK(answers[i].tokens.size() == contract[i].tokens.size());
    return flatten(std::move(answers));
  };
  EADEM_ASSIGN_OR_RETURN(const auto control, run_again(options.runs[0], "contract"));
  std::vector<std::vector<SampledToken>> free;
  for (const NearTieRun& run : options.runs) {
    EADEM_ASSIGN_OR_RETURN(auto told, run_again(run, "free"));
    free.push_back(std::move(told));
  }
  size_t at = 0;
  std::vector<SampledToken> here(free.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    for (const SampledToken& token : contract[i].tokens) {
      for (size_t run = 0; run < free.size(); ++run) here[run] = std::move(free[run][at]);
      NearTiePosition position = measure_position(token, here);
      position.text = texts[static_cast<size_t>(position.token)];
      position.runner_up_text = texts[static_cast<size_t>(position.runner_up)];
      const double again = measure_position(token, {&control[at], 1}).difference;
      ties.control_difference = std::max(ties.control_difference, again);
      ++ties.control_tokens, ++at;
      asked[i].prompt.positions.push_back(std::move(position));
    }
    ties.prompts.push_back(std::move(asked[i].prompt));
  }
  return ties;
}

}  // namespace eadem::audit
