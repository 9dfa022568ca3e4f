#include "e2e/invariance/cell.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "core/sha256.h"
#include "engine/engine.h"
#include "model/model.h"

namespace eadem::tests {
namespace {

constexpr int64_t kContext = 2048;  // positions; enough for every prompt and answer

class Collector final : public engine::Listener {
 public:
  void on_prompt(std::vector<SampledToken> scored) override { prompt = std::move(scored); }
  bool on_token(const SampledToken& token, bool) override {
    tokens.push_back(token);
    return true;
  }
  void on_finish(const engine::Outcome& outcome) override {
    result = outcome;
    finished = true;
  }

  std::vector<SampledToken> prompt, tokens;
  engine::Outcome result;
  bool finished = false;
};

std::string hash_of(const std::vector<SampledToken>& tokens, const std::string& kv_hash) {
  Sha256 hash;
  for (const SampledToken& token : tokens) {
    hash.update_value(token.token);
    hash.update_value(token.logprob);
    for (const TokenLogprob& top : token.top) {
      hash.update_value(top.token);
      hash.update_value(top.logprob);
    }
  }
  hash.update(std::as_bytes(std::span(kv_hash.data(), kv_hash.size())));
  return hash.hex();
}

SamplingParams sampling_of(bool seeded, int max_tokens) {
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  sampling.logprobs = 2;
  sampling.temperature = seeded ? 0.8f : 0.0f;
  sampling.top_p = seeded ? 0.95f : 1.0f;
  return sampling;
}

constexpr uint64_t kSeed = 20261129;

struct Run {
  std::string name;
  engine::SequenceRequest request;
  Collector collector;
};

using Runs = std::vector<std::unique_ptr<Run>>;

Runs runs_of(const std::vector<Prompt>& prompts, const Cell& cell) {
  Runs runs;
  const std::string tail = cell.max_tokens == kAnswerTokens ? "" : "/" + std::to_string(cell.max_tokens);
  for (const bool seeded : {false, true}) {
    for (const Prompt& prompt : prompts) {
      if (cell.max_prompt > 0 && static_cast<int>(prompt.tokens.size()) > cell.max_prompt) continue;
      auto run = std::make_unique<Run>();
      run->name = prompt.name + (seeded ? "/seeded" : "/greedy") + tail;
      run->request = {prompt.tokens, sampling_of(seeded, cell.max_tokens), kSeed, true};
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

Result<void> run_all(engine::Engine& engine, Runs& runs) {
  for (auto& run : runs) {
    auto id = engine.submit(run->request, &run->collector);
    if (!id.ok()) return Error{run->name + ": " + id.error().message};
  }
  while (engine.step()) {
  }
  for (const auto& run : runs) {
    if (!run->collector.finished) return Error{run->name + " did not finish"};
    if (run->collector.result.reason == FinishReason::kError)
      return Error{run->name + ": " + run->collector.result.error};
  }
  return {};
}

// The first half of each prompt, at least one token, so that its whole blocks are in the cache.
Result<void> warm_halves(engine::Engine& engine, const std::vector<Prompt>& prompts, const Cell& cell) {
  std::vector<Prompt> halves = prompts;
  for (Prompt& half : halves) half.tokens.resize((half.tokens.size() + 1) / 2);
  Cell once = cell;
  once.max_tokens = 1;
  Runs runs = runs_of(halves, once);
  return run_all(engine, runs);
}

// The answers' tokens as part of the prompt: their logprobs must be those that generation gave.
Result<void> score_all(engine::Engine& engine, const Runs& runs) {
  Runs scores;
  for (const auto& run : runs) {
    auto score = std::make_unique<Run>();
    score->name = run->name;
    score->request = run->request;
    for (const SampledToken& token : run->collector.tokens) score->request.prompt.push_back(token.token);
    score->request.sampling.max_tokens = 0;
    score->request.sampling.prompt_logprobs = run->request.sampling.logprobs;
    score->request.sampling.logprobs = -1;
    scores.push_back(std::move(score));
  }
  EADEM_RETURN_IF_ERROR(run_all(engine, scores));
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& scored = scores[i]->collector.prompt;
    const size_t first = runs[i]->request.prompt.size();
    if (scored.size() != scores[i]->request.prompt.size()) return Error{runs[i]->name + ": scoring lost tokens"};
    const std::vector<SampledToken> answer(scored.begin() + static_cast<std::ptrdiff_t>(first), scored.end());
    if (hash_of(answer, "") != hash_of(runs[i]->collector.tokens, "")) {
      return Error{runs[i]->name + ": scoring's logprobs differ from generation's"};
    }
  }
  return {};
}

Result<void> prove_path(const Cell& cell, const Counters& counters, const Runs& runs) {
  int longest = 0;
  for (const auto& run : runs) longest = std::max(longest, static_cast<int>(run->request.prompt.size()));
  const auto demand = [&](bool condition, const std::string& what) -> Result<void> {
    if (condition) return {};
    return Error{"the cell (" + cell.describe() + ") proved nothing: " + what};
  };
  EADEM_RETURN_IF_ERROR(demand(counters.max_sequences == std::min<uint64_t>(cell.batch, runs.size()) ||
                                   cell.preempt == -1 || cell.chunk < 4 * cell.batch,
                               "its batch was never full: " + std::to_string(counters.max_sequences)));
  EADEM_RETURN_IF_ERROR(
      demand(counters.max_rows <= static_cast<uint64_t>(std::max(cell.chunk, cell.batch)), "steps were too large"));
  EADEM_RETURN_IF_ERROR(demand(longest <= cell.chunk || counters.chunked_prompts > 0, "no prompt was chunked"));
  EADEM_RETURN_IF_ERROR(demand(cell.preempt == 0 || counters.preemptions > 0, "nothing was preempted"));
  EADEM_RETURN_IF_ERROR(demand(cell.prefix == "cold" || counters.prefix_hit_tokens > 0, "no prefix was found"));
  const bool guesses = cell.speculation != "off";
  EADEM_RETURN_IF_ERROR(demand(!guesses || counters.accepted_tokens > 0, "no guess was right"));
  EADEM_RETURN_IF_ERROR(
      demand(!guesses || counters.drafted_tokens > counters.accepted_tokens, "every guess was right"));
  EADEM_RETURN_IF_ERROR(
      demand((cell.speculation == "draft") == (counters.draft_steps > 0), "whether there is a draft model"));
  return demand(cell.prefix != "cold" || counters.prefix_hit_tokens == 0, "a cold cell used the cache");
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Error{"cannot read " + path};
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) return Error{path + ": a line without 'name:'"};
    Prompt prompt;
    prompt.name = line.substr(0, colon);
    std::istringstream ids(line.substr(colon + 1));
    for (int32_t id; ids >> id;) prompt.tokens.push_back(id);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::string Cell::describe() const {
  std::ostringstream text;
  text << numerics::short_name(numerics) << " " << kernels->name << " threads=" << threads << " batch=" << batch
       << " chunk=" << chunk << " prefix=" << prefix << " preempt=" << preempt << (score ? " score" : "");
  if (max_prompt > 0) text << " prompts<=" << max_prompt;
  if (speculation != "off") text << " speculation=" << speculation;
  if (max_tokens != kAnswerTokens) text << " tokens=" << max_tokens;
  return text.str();
}

Result<Hashes> run_cell(const weights::Checkpoint& checkpoint, const std::vector<Prompt>& prompts, const Cell& cell) {
  model::ModelOptions model_options;
  model_options.numerics = cell.numerics;
  model_options.kernels = cell.kernels;
  model_options.threads = cell.threads;
  model_options.max_rows = std::max(cell.chunk, cell.batch);
  const uint64_t calls = cell.kernels->calls->load();
  EADEM_ASSIGN_OR_RETURN(const auto model, model::Model::load(checkpoint, model_options));
  engine::Options options;
  options.max_batch = cell.batch;
  options.prefill_chunk = cell.chunk;
  options.mixed_chunk = 1 << 20;  // prompts are not held back beside drawing rows, so that the batch fills up
  options.max_model_len = std::min<int64_t>(kContext, model->config().context);
  options.prefix_cache = cell.prefix != "cold";
  options.force_preempt = std::max(cell.preempt, 0);
  // A pool for one long sequence and little more: sequences of a batch must push each other out.
  options.kv_blocks = cell.preempt == -1 ? static_cast<int>(options.max_model_len / numerics::kKvBlock) + 1 : 0;
  std::unique_ptr<model::Model> draft;
  if (cell.speculation == "ngram") options.speculation.kind = engine::SpeculationOptions::Kind::kNgram;
  if (cell.speculation == "draft") {
    const bool is_int8 = cell.numerics == numerics::Numerics::kInt8;
    model_options.numerics = is_int8 ? numerics::Numerics::kFma32 : numerics::Numerics::kInt8;
    EADEM_ASSIGN_OR_RETURN(draft, model::Model::load(checkpoint, model_options));
    options.speculation.kind = engine::SpeculationOptions::Kind::kDraft;
    options.speculation.draft_model = draft.get();
    options.speculation.eager = true;  // it costs too much to pay
  }
  EADEM_ASSIGN_OR_RETURN(const auto engine, engine::Engine::create(*model, options));
  if (cell.prefix == "partial") EADEM_RETURN_IF_ERROR(warm_halves(*engine, prompts, cell));
  if (cell.prefix == "warm") {
    Runs before = runs_of(prompts, cell);
    EADEM_RETURN_IF_ERROR(run_all(*engine, before));
  }
  Runs runs = runs_of(prompts, cell);
  if (runs.empty()) return Error{"the cell (" + cell.describe() + ") has no prompts"};
  EADEM_RETURN_IF_ERROR(run_all(*engine, runs));
  EADEM_RETURN_IF_ERROR(prove_path(cell, engine->counters(), runs));
  if (cell.kernels->calls->load() == calls)
    return Error{"the kernel set " + std::string(cell.kernels->name) + " did not run"};
  if (cell.score) EADEM_RETURN_IF_ERROR(score_all(*engine, runs));
  Hashes hashes;
  for (const auto& run : runs) hashes[run->name] = hash_of(run->collector.tokens, run->collector.result.kv_hash);
  return hashes;
}

}  // namespace eadem::tests
