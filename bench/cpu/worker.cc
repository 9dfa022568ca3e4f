// The engine as a process that is told what to time: one JSON object a line on stdin, one a line on stdout.
//
//   bench_worker -m MODEL [--numerics N] [--isa I] [--threads N] [--rows N] [--positions N]
//
// --rows: most sequences at once; --positions: KV positions in all. The first line written says what was opened. Then
//
//   {"do": "prefill", "tokens": 512, "seed": 7}             -> {"seconds": s}   a fresh prompt, to its first token
//   {"do": "start", "rows": 4, "context": 64, "steps": 32, "seed": 7}
//                                                           -> {"seconds": s}   sequences, each past its prompt, with
//                                                                               room for so many tokens more
//   {"do": "advance", "steps": 32}                          -> {"seconds": s}   so many tokens more of each
//   {"do": "stop"}                                          -> {}               the sequences end
//
// A command that fails is answered by {"error": text}. Ends with its input. bench/peers/ holds the same for other
// engines; bench/cpu/ starts all of them and times them in turn.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "eadem/engine.h"

namespace {

using namespace eadem;  // NOLINT
using nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "bench_worker: %s\n", message.c_str());
  std::exit(2);
}

// Tokens spread over the vocabulary, others for each seed and sequence.
std::vector<int32_t> random_prompt(int64_t vocabulary, int64_t tokens, uint64_t seed, uint64_t sequence) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + sequence * 0xbf58476d1ce4e5b9u + 1;
  std::vector<int32_t> prompt;
  for (int64_t i = 0; i < tokens; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    prompt.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocabulary)));
  }
  return prompt;
}

class Worker {
 public:
  explicit Worker(Engine engine) : engine_(std::move(engine)) {}

  ordered_json obey(const ordered_json& command) {
    const auto what = command.at("do").get<std::string>();
    const double start = now();
    if (what == "prefill") {
      begin(1, command.at("tokens"), command.at("seed"), 1);
      until(1);
    } else if (what == "start") {
      // Prompts that end early draw tokens while others are still read: no more than there are steps for prompts.
      const int rows = command.at("rows"), context = command.at("context");
      begin(rows, context, command.at("seed"), command.at("steps").get<int>() + rows * (context / 512 + 1) + 2);
      until(1);
    } else if (what == "advance") {
      if (drawn_.empty()) fail("advance comes after start");
      until(least() + command.at("steps").get<int64_t>());
    } else if (what == "stop") {
      stop();
      return ordered_json::object();
    } else {
      fail("unknown command " + what);
    }
    const double seconds = now() - start;
    if (what == "prefill") stop();
    if (!error_.empty()) return {{"error", std::exchange(error_, {})}};
    return {{"seconds", seconds}};
  }

  ordered_json describe(double load_seconds) const {
    const ModelInfo& info = engine_.info();
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return {{"engine", "eadem"},
            {"version", EADEM_VERSION},
            {"settings", {{"numerics", info.numerics}, {"isa", info.isa}, {"threads", info.threads}}},
            {"load_seconds", load_seconds},
            {"weight_bytes", info.weight_bytes},
            {"peak_resident_bytes", static_cast<uint64_t>(usage.ru_maxrss) * 1024},
            {"kv_bytes", info.kv_bytes},
            {"layers", info.layers},
            {"hidden", info.hidden},
            {"heads", info.heads},
            {"kv_heads", info.kv_heads},
            {"head_size", info.head_size},
            {"vocabulary", info.vocab}};
  }

 private:
  void begin(int rows, int64_t context, uint64_t seed, int max_tokens) {
    stop();
    const ModelInfo& info = engine_.info();
    drawn_.assign(static_cast<size_t>(rows), 0);
    for (size_t row = 0; row < drawn_.size(); ++row) {
      Request request;
      request.prompt_token_ids = random_prompt(info.vocab, context, seed, row);
      request.sampling.max_tokens = max_tokens;
      request.sampling.temperature = 0.0f;
      request.sampling.ignore_eos = true;
      Callbacks callbacks;
      callbacks.on_token = [this, row](int, const SampledToken&, std::string_view) {
        ++drawn_[row];
        return true;
      };
      const auto ticket = engine_.submit(std::move(request), std::move(callbacks));
      if (!ticket.ok()) {
        error_ = ticket.error().message;
        return;
      }
      tickets_.push_back(ticket.value());
    }
  }

  int64_t least() const { return *std::min_element(drawn_.begin(), drawn_.end()); }

  void until(int64_t tokens) {
    while (error_.empty() && least() < tokens) {
      if (!engine_.step() && least() < tokens)
        error_ = "the sequences ended before the time: is the context too short?";
    }
  }

  void stop() {
    for (const Engine::Ticket ticket : tickets_) engine_.cancel(ticket);
    while (engine_.step()) {
    }
    tickets_.clear();
    drawn_.clear();
  }

  Engine engine_;
  std::vector<Engine::Ticket> tickets_;
  std::vector<int64_t> drawn_;  // tokens of each sequence so far
  std::string error_;
};

EngineOptions parse(int argc, char** argv) {
  EngineOptions options;
  options.prefix_cache = false;  // prompts are fresh all the same
  int64_t rows = 1, positions = 4096;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "-m") {
      options.model = value;
    } else if (name == "--numerics") {
      options.numerics = value;
    } else if (name == "--isa") {
      options.isa = value;
    } else if (name == "--threads") {
      options.threads = std::atoi(value.c_str());
    } else if (name == "--rows") {
      rows = std::atoll(value.c_str());
    } else if (name == "--positions") {
      positions = std::atoll(value.c_str());
    } else {
      fail("unknown option " + name);
    }
  }
  if (options.model.empty() || argc % 2 == 0) fail("usage: bench_worker -m MODEL [--option value]...");
  options.max_batch = static_cast<int>(rows);
  options.kv_blocks = static_cast<int>(positions / 64 + 2 * rows);  // a started block of each sequence more
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const EngineOptions options = parse(argc, argv);
  const double start = now();
  auto engine = Engine::open(options);
  if (!engine.ok()) {
    std::cout << ordered_json{{"error", engine.error().message}}.dump() << std::endl;
    return 1;
  }
  Worker worker(std::move(engine).value());
  std::cout << worker.describe(now() - start).dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json command = ordered_json::parse(line, nullptr, false);
    if (command.is_discarded()) fail("not JSON: " + line);
    std::cout << worker.obey(command).dump() << std::endl;
  }
  return 0;
}
