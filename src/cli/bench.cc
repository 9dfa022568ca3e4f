#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "audit/speed.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/machine.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;

struct Options {
  EngineFlags engine;
  std::vector<int64_t> batches = {1, 4, 16};
  int prompt = 512, fresh = 64, repeats = 3;
  bool json = false;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Median and spread, (largest - smallest) / median, of the repeats.
ordered_json summary(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {{"median", median}, {"spread", (values.back() - values.front()) / median}};
}

struct Figures {
  std::vector<double> prefill, decode, first_token, gap;  // one of each repeat

  void add(const audit::Speeds& speeds) {
    prefill.push_back(speeds.prefill);
    decode.push_back(speeds.decode);
    first_token.push_back(speeds.first_token);
    gap.push_back(speeds.between_p50);
  }
};

Result<ordered_json> bench_batch(const Options& options, Engine& engine, int batch, Progress& bar) {
  Figures figures;
  const audit::Workload workload = {batch, options.prompt, options.fresh};
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    bar.show(0, 0,
             "batch " + std::to_string(batch) + ", repeat " + std::to_string(repeat + 1) + " of " +
                 std::to_string(options.repeats));
    EADEM_ASSIGN_OR_RETURN(const audit::RunTimes times,
                           audit::time_run(engine, workload, [] { return !interrupted(); }));
    figures.add(audit::speeds_of(times, workload));
  }
  return ordered_json{{"batch", batch},
                      {"prefill_tokens_per_second", summary(figures.prefill)},
                      {"decode_tokens_per_second", summary(figures.decode)},
                      {"time_to_first_token_seconds", summary(figures.first_token)},
                      {"inter_token_seconds", summary(figures.gap)}};
}

void print(const ordered_json& all) {
  const ordered_json& machine = all["machine"];
  std::printf("%s, %s, %d threads, %s\n", all["model"].get<std::string>().c_str(),
              all["numerics"].get<std::string>().c_str(), all["threads"].get<int>(),
              machine["cpu"].get<std::string>().c_str());
  std::printf("prompts of %d tokens, %d new, median of %d (spread)\n", all["prompt"].get<int>(), all["new"].get<int>(),
              all["repeats"].get<int>());
  std::printf("%5s  %21s  %21s  %18s  %18s\n", "batch", "prefill tok/s", "decode tok/s", "TTFT ms", "ITL ms");
  const auto figure = [](const ordered_json& value, double scale, int digits) {
    char text[48];
    std::snprintf(text, sizeof(text), "%.*f (%.0f %%)", digits, value["median"].get<double>() * scale,
                  value["spread"].get<double>() * 100);
    return std::string(text);
  };
  for (const ordered_json& row : all["results"]) {
    std::printf(
        "%5d  %21s  %21s  %18s  %18s\n", row["batch"].get<int>(),
        figure(row["prefill_tokens_per_second"], 1, 1).c_str(), figure(row["decode_tokens_per_second"], 1, 1).c_str(),
        figure(row["time_to_first_token_seconds"], 1e3, 1).c_str(), figure(row["inter_token_seconds"], 1e3, 2).c_str());
  }
}

Result<int> run(const Options& options) {
  EngineFlags flags = options.engine;
  flags.options.prefix_cache = false;  // repeats would find their prompts there
  flags.options.max_batch = std::max(
      flags.options.max_batch, static_cast<int>(*std::max_element(options.batches.begin(), options.batches.end())));
  const double start = now();
  EADEM_ASSIGN_OR_RETURN(Engine engine, flags.open());
  const ModelInfo& info = engine.info();
  ordered_json all = {{"version", EADEM_VERSION},
                      {"machine", describe_machine()},
                      {"model", info.path},
                      {"numerics", info.numerics},
                      {"isa", info.isa},
                      {"threads", info.threads},
                      {"load_seconds", now() - start},
                      {"prompt", options.prompt},
                      {"new", options.fresh},
                      {"repeats", options.repeats},
                      {"results", ordered_json::array()}};
  catch_interrupts();
  Progress bar;
  for (const int64_t batch : options.batches) {
    auto row = bench_batch(options, engine, static_cast<int>(batch), bar);
    if (!row.ok() && interrupted()) return kInterrupted;
    if (!row.ok()) return Error{row.error()};
    all["results"].push_back(std::move(row).value());
  }
  bar.clear();
  if (options.json) {
    std::puts(to_line(all).c_str());
  } else {
    print(all);
  }
  return end_run(flags, engine, 0);
}

}  // namespace

Run add_bench(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.option("--batch", "LIST", "batch sizes [1,4,16]", [o = options.get()](const std::string& text) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(o->batches, parse_integers(text, 1, 4096));
    return {};
  });
  flags.integer("--prompt", "tokens of each prompt [512]", 1, 1 << 20, &options->prompt);
  flags.integer("--new", "tokens to draw after each [64]", 2, 1 << 20, &options->fresh);
  flags.integer("--repeats", "runs whose median counts [3]", 1, 1000, &options->repeats);
  flags.flag("--json", "as a JSON object", &options->json);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
