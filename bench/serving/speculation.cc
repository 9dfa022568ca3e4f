// How much prompt lookup speeds up one stream, and what more rows cost a step. JSON on stdout.
//
//   bench_speculation MODEL PROMPTS.jsonl [--threads N] [--max-tokens N] [--max-draft N] [--least RATIO]
//   bench_speculation --rows MODEL [--threads N]
//
// The first form asks each prompt of two engines in one process, one without and one with speculation, in turn and in
// alternating order, and times them from an answer's first token to its last. Exits with 1 where any byte of an answer
// (tokens, logprobs) differs, or where the ratio is below --least. The second times steps of 1 to 32 rows behind a
// context of 300 positions: what engine/speculation.cc's step_cost() was read off.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/request_json.h"
#include "eadem/engine.h"
#include "model/model.h"

namespace {

using namespace eadem;  // NOLINT
using nlohmann::ordered_json;

struct Arguments {
  std::string model, prompts, numerics = "auto";
  int threads = 2, max_tokens = 128, max_draft = 8;
  double least = 0.0;
  bool rows = false;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench_speculation: %s\n", message.c_str());
  std::exit(2);
}

template <class T>
T check(Result<T> result) {
  if (!result.ok()) fail(result.error().message);
  return std::move(result).value();
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Told {
  std::vector<Completion> answers;
  double seconds = 0.0;  // from the first token to the last
  size_t tokens = 0;     // after the first
};

Told ask(Engine& engine, const Request& request) {
  double first = 0.0, last = 0.0;
  Callbacks callbacks;
  callbacks.on_token = [&](int, const SampledToken&, std::string_view) {
    last = now();
    if (first == 0.0) first = last;
    return true;
  };
  Told told;
  told.answers = check(engine.generate(request, std::move(callbacks)));
  told.seconds = last - first;
  told.tokens = told.answers[0].tokens.size() - 1;
  return told;
}

bool same_bits(const Told& a, const Told& b) {
  const auto &x = a.answers[0].tokens, &y = b.answers[0].tokens;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const SampledToken& s, const SampledToken& t) {
    return s.token == t.token && std::memcmp(&s.logprob, &t.logprob, sizeof s.logprob) == 0;
  });
}

struct Sum {
  double off_seconds = 0.0, on_seconds = 0.0;
  size_t tokens = 0, drafted = 0, accepted = 0;

  void add(const Told& off, const Told& on) {
    off_seconds += off.seconds, on_seconds += on.seconds;
    tokens += off.tokens;
    drafted += static_cast<size_t>(on.answers[0].drafted_tokens);
    accepted += static_cast<size_t>(on.answers[0].accepted_tokens);
  }
  double ratio() const { return off_seconds / on_seconds; }
  ordered_json json() const {
    const auto count = static_cast<double>(tokens);
    return {{"tokens", tokens},
            {"off_tokens_per_second", count / off_seconds},
            {"ngram_tokens_per_second", count / on_seconds},
            {"ratio", ratio()},
            {"drafted", drafted},
            {"accepted", accepted}};
  }
};

int compare(const Arguments& arguments) {
  EngineOptions options;
  options.model = arguments.model;
  options.numerics = arguments.numerics;
  options.threads = arguments.threads;
  options.max_batch = 1;
  Engine off = check(Engine::open(options));
  options.speculation = "ngram";
  options.max_draft = arguments.max_draft;
  Engine on = check(Engine::open(options));
  std::ifstream file(arguments.prompts);
  if (!file) fail("cannot read " + arguments.prompts);
  std::map<std::string, Sum> kinds;
  Sum all;
  int differing = 0, number = 0;
  for (std::string line; std::getline(file, line); ++number) {
    const ordered_json object = ordered_json::parse(line);
    Request request = check(api::resolve(off, check(api::parse_request(object, {}))));
    request.sampling.temperature = 0.0f;
    request.sampling.max_tokens = arguments.max_tokens;
    request.sampling.logprobs = 0;
    Told told[2];
    for (int turn = 0; turn < 2; ++turn) {
      const int which = (turn + number) % 2;
      told[which] = ask(which == 0 ? off : on, request);
    }
    if (!same_bits(told[0], told[1])) {
      ++differing;
      std::fprintf(stderr, "%s differs\n", request.id.c_str());
    }
    kinds[request.id.substr(0, request.id.find('/'))].add(told[0], told[1]);
    all.add(told[0], told[1]);
  }
  ordered_json report = {{"model", arguments.model}, {"numerics", off.info().numerics},
                         {"isa", off.info().isa},    {"threads", off.info().threads},
                         {"prompts", number},        {"differing", differing},
                         {"all", all.json()}};
  for (const auto& [kind, sum] : kinds) report[kind] = sum.json();
  std::printf("%s\n", report.dump(2).c_str());
  return differing == 0 && number > 0 && all.ratio() >= arguments.least ? 0 : 1;
}

// The least of many rounds, each through all sizes: what the work takes where nothing disturbs it.
int rows(const Arguments& arguments) {
  constexpr int kContext = 300, kRounds = 41;
  const std::vector<int> sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 32};
  const auto checkpoint = check(weights::Checkpoint::open(arguments.model));
  model::ModelOptions options;
  options.numerics = model::default_numerics(checkpoint);
  options.kernels = &kernels::best_kernel_set();
  options.threads = arguments.threads;
  const auto model = check(model::Model::load(checkpoint, options));
  auto pool =
      check(model::KvPool::create(*options.kernels, model->attention_shape(), model->config().layers, 6, nullptr));
  const std::vector<int32_t> table = {0, 1, 2, 3, 4, 5};
  std::vector<float> logits(static_cast<size_t>(model->config().vocab) * 32);
  const auto step = [&](int begin, int count) {
    model::Batch batch;
    batch.tables = {table.data()};
    for (int i = 0; i < count; ++i) {
      batch.rows.push_back({0, (begin + i) * 37 % 40000, begin + i});
      if (count <= 32) batch.outputs.push_back(i);
    }
    model->forward(batch, pool);
    if (count <= 32) model->logits(0, count, logits.data());
  };
  step(0, kContext);
  std::map<int, std::vector<double>> times;
  for (int round = 0; round < kRounds; ++round) {
    for (const int size : sizes) {
      const double start = now();
      step(kContext, size);
      times[size].push_back(now() - start);
    }
  }
  ordered_json report = {{"numerics", numerics::full_name(options.numerics)}, {"threads", options.threads}};
  double one = 0.0;
  for (auto& [size, list] : times) {
    std::sort(list.begin(), list.end());
    const double least = list.front(), median = list[list.size() / 2];
    if (size == 1) one = least;
    report["rows"].push_back(
        {{"rows", size}, {"least_ms", least * 1e3}, {"median_ms", median * 1e3}, {"relative", least / one}});
  }
  std::printf("%s\n", report.dump().c_str());
  return 0;
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) fail(word + " needs a value");
      return argv[i];
    };
    if (word == "--rows") {
      arguments.rows = true;
    } else if (word == "--threads") {
      arguments.threads = std::stoi(value());
    } else if (word == "--max-tokens") {
      arguments.max_tokens = std::stoi(value());
    } else if (word == "--max-draft") {
      arguments.max_draft = std::stoi(value());
    } else if (word == "--numerics") {
      arguments.numerics = value();
    } else if (word == "--least") {
      arguments.least = std::stod(value());
    } else {
      names.push_back(word);
    }
  }
  if (names.size() != (arguments.rows ? 1u : 2u)) fail("usage: [--rows] MODEL [PROMPTS.jsonl] [options]");
  arguments.model = names[0];
  if (names.size() == 2) arguments.prompts = names[1];
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  return arguments.rows ? rows(arguments) : compare(arguments);
}
