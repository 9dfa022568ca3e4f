// The same requests on this machine's kernels and on a device, in many ways: every digest (token ids, bits of logprobs,
// keys and values) must agree. For a device made of this machine's kernels as for a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kernels/device.h"
#include "model/model.h"
#include "support/engine_run.h"
#include "support/random_model.h"
#include "weights/checkpoint.h"

namespace eadem::testing {

class ShapedModel {
 public:
  explicit ShapedModel(RandomShape shape) : shape_(std::move(shape)) {
    write_random_model(folder_.path(), shape_);
    auto opened = weights::Checkpoint::open(folder_.path());
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    checkpoint_ = std::make_unique<weights::Checkpoint>(std::move(opened).value());
  }

  const RandomShape& shape() const { return shape_; }
  // device: null for this machine's kernels.
  std::unique_ptr<model::Model> load(numerics::Numerics numerics, int threads, int max_rows,
                                     std::shared_ptr<kernels::Device> device, bool graphs = true) const {
    model::ModelOptions options;
    options.numerics = numerics;
    options.threads = threads;
    options.max_rows = max_rows;
    options.device = std::move(device);
    options.graphs = graphs;
    auto loaded = model::Model::load(*checkpoint_, options);
    if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
    return std::move(loaded).value();
  }

 private:
  RandomShape shape_;
  test::TempDirectory folder_;
  std::unique_ptr<weights::Checkpoint> checkpoint_;
};

// Greedy, drawn, filtered in every way, penalised, scored, pooled, with lists of every length; some begin alike, some
// end early.
inline std::vector<engine::SequenceRequest> mixed_requests(int count, int vocab, int longest, int most_tokens) {
  std::mt19937 rng(11);
  const auto token = [&] { return static_cast<int32_t>(rng() % static_cast<uint32_t>(vocab)); };
  std::vector<int32_t> shared(static_cast<size_t>(longest));
  std::generate(shared.begin(), shared.end(), token);
  std::vector<engine::SequenceRequest> all;
  for (int i = 0; i < count; ++i) {
    engine::SequenceRequest r;
    r.prompt.resize(i == 0 ? static_cast<size_t>(longest) : 1 + rng() % static_cast<uint32_t>(longest));
    std::generate(r.prompt.begin(), r.prompt.end(), token);
    if (i % 4 == 3) std::copy_n(shared.begin(), r.prompt.size(), r.prompt.begin());
    SamplingParams& s = r.sampling;
    s.max_tokens = 1 + (most_tokens - 1) * (1 + i % 4) / 4;
    s.temperature = i % 3 == 0 ? 0.0f : i % 3 == 1 ? 0.8f : 1.0f;
    s.top_p = i % 5 == 1 ? 0.9f : 1.0f;
    s.top_k = i % 7 == 2 ? 20 : 0;
    s.min_p = i % 7 == 5 ? 0.05f : 0.0f;
    s.repetition_penalty = i % 11 == 4 ? 1.2f : 1.0f;
    s.logprobs = i % 13 == 6 ? 25 : i % 4 == 2 ? 20 : i % 2;
    s.processed_logprobs = i % 17 == 8;
    s.prompt_logprobs = i % 6 == 5 ? 2 : -1;
    if (i % 19 == 9) s.logit_bias = {{3, 2.0f}};
    if (i % 23 == 12) s.golden_token_ids = {1, 2, 3};
    // It ends at a token that nobody knows ahead.
    for (int t = i % 9; i % 4 == 1 && t < vocab; t += 9) s.stop_token_ids.push_back(t);
    if (i % 23 == 14) r.pooling = i % 2 == 0 ? Pooling::kMean : Pooling::kLast;
    r.seed = 99 + static_cast<uint64_t>(i);
    r.kv_hash = true;
    all.push_back(std::move(r));
  }
  return all;
}

// Those of them that a device draws wholly by itself, so that it need not wait for this machine.
inline std::vector<engine::SequenceRequest> drawn_requests(int count, int vocab, int longest, int most_tokens) {
  auto all = mixed_requests(count, vocab, longest, most_tokens);
  for (engine::SequenceRequest& r : all) {
    SamplingParams& s = r.sampling;
    s.repetition_penalty = 1.0f;
    s.logprobs = std::min(s.logprobs, 20);
    s.processed_logprobs = false;
    s.logit_bias.clear();
    r.pooling = Pooling::kNone;
  }
  return all;
}

struct DeviceCell {
  int batch = 1, chunk = 512, blocks = 0;
  bool prefix = false, async = false;
  int preempt = 0;
  int rounds = 1;     // a second one finds what the first left in the prefix cache
  bool ahead = true;  // with async: steps are launched while the one before runs

  std::string describe() const {
    return "batch " + std::to_string(batch) + " chunk " + std::to_string(chunk) +
           (blocks > 0 ? " blocks " + std::to_string(blocks) : "") + (prefix ? " prefix" : "") +
           (async ? ahead ? " async" : " async behind" : "") +
           (preempt > 0 ? " preempt " + std::to_string(preempt) : "") +
           (rounds > 1 ? " rounds " + std::to_string(rounds) : "");
  }
};

// An answer's parts, so that it is seen in which of them two differ.
inline std::string parts_of(const Answer& answer) {
  const auto hash_of = [](const auto& fill) {
    Sha256 hash;
    fill(hash);
    return hash.hex().substr(0, 6);
  };
  std::string text = "prompt " + hash_of([&](Sha256& hash) { hash_tokens(hash, answer.prompt); });
  text += " kv " + answer.outcome.kv_hash.substr(0, 6) + " tokens";
  for (const SampledToken& token : answer.tokens) {
    text += " " + std::to_string(token.token) + "/" + hash_of([&](Sha256& hash) { hash_tokens(hash, {token}); });
  }
  return text;
}

// What a trace told, by "request position layer op": the digest of the values.
using Traced = std::map<std::string, std::string>;

class Tracer final : public model::TraceSink {
 public:
  void record(const model::Batch& batch, int row, int layer, std::string_view op,
              std::span<const std::byte> bytes) override {
    const model::Row& r = batch.rows[static_cast<size_t>(row)];
    const auto [place, first] = order_.try_emplace(std::string(op), static_cast<int>(order_.size()));
    char key[96];
    std::snprintf(key, sizeof key, "request %05llu position %05lld layer %03d op %02d ",
                  static_cast<unsigned long long>(engine->sequence_of(r.sequence)), static_cast<long long>(r.position),
                  op == "final_norm" ? 999 : layer, place->second);
    Sha256 hash;
    hash.update(bytes);
    traced[key + std::string(op)] = hash.hex();
  }
  engine::Engine* engine = nullptr;
  Traced traced;

 private:
  std::map<std::string, int> order_;
};

// One for each request; of a second round "differs" where it differs from the first.
inline std::vector<std::string> run_cell(model::Model& model, const DeviceCell& cell,
                                         const std::vector<engine::SequenceRequest>& asked, Counters* counters,
                                         Traced* traced = nullptr, std::vector<std::string>* parts = nullptr) {
  engine::Options options;
  options.max_batch = cell.batch;
  options.prefill_chunk = cell.chunk;
  options.mixed_chunk = 1 << 20;
  options.kv_blocks = cell.blocks;
  options.prefix_cache = cell.prefix;
  options.async_scheduling = cell.async;
  options.run_ahead = cell.ahead;
  options.force_preempt = cell.preempt;
  auto engine = engine::Engine::create(model, options);
  if (!engine.ok()) throw std::runtime_error(engine.error().message);
  Tracer tracer;
  tracer.engine = engine.value().get();
  if (traced != nullptr) engine.value()->set_trace(&tracer);
  std::vector<std::string> all;
  for (int round = 0; round < cell.rounds; ++round) {
    Answers answers = run_all(*engine.value(), asked);
    std::vector<std::string> now = digests(answers);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]->outcome.error.empty()) now[i] += " " + answers[i]->outcome.error;
      if (round > 0 && now[i] != all[i]) now[i] = "differs from round to round";
    }
    all = std::move(now);
    if (parts == nullptr) continue;
    parts->clear();
    for (const auto& answer : answers) parts->push_back(parts_of(*answer));
  }
  if (traced != nullptr) *traced = std::move(tracer.traced);
  if (counters != nullptr) *counters = engine.value()->counters();
  return all;
}

// Logits of every position of a prompt that is read in one step: [tokens][vocab].
inline std::vector<float> logits_of(model::Model& model, const std::vector<int32_t>& tokens) {
  const model::ModelOptions& options = model.options();
  const auto count = static_cast<int>(tokens.size());
  std::vector<int32_t> table(static_cast<size_t>(count / 64 + 1));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
  auto kv = model::KvPool::create(options.layout(), model.attention_shape(), model.config().layers,
                                  static_cast<int>(table.size()), options.device.get());
  if (!kv.ok()) throw std::runtime_error(kv.error().message);
  model::Batch batch;
  batch.tables = {table.data()};
  for (int i = 0; i < count; ++i) {
    batch.rows.push_back({0, tokens[static_cast<size_t>(i)], i});
    batch.outputs.push_back(i);
  }
  model.forward(batch, kv.value());
  model.finish();
  std::vector<float> logits(tokens.size() * static_cast<size_t>(model.config().vocab));
  model.logits(0, count, logits.data());
  return logits;
}

// |a - b| / |b|, Euclidean.
inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d, norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / norm);
}

}  // namespace eadem::testing
