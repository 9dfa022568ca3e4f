#include "cli/engine_flags.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "api/counter_names.h"
#include "cli/terminal.h"

namespace eadem::cli {

Result<size_t> parse_bytes(const std::string& text) {
  int shift = 0;
  std::string digits = text;
  if (!text.empty()) {
    const std::string units = "KMG";
    const size_t unit = units.find(text.back());
    if (unit != std::string::npos) {
      shift = 10 * static_cast<int>(unit + 1);
      digits.pop_back();
    }
  }
  const auto number = parse_integer(digits, 1, (int64_t{1} << 50) >> shift);
  if (!number.ok()) return Error{"a number of bytes, as 1500000000, 512M or 2G"};
  return static_cast<size_t>(number.value()) << shift;
}

void EngineFlags::add(Flags& flags) {
  const char* model = std::getenv("EADEM_MODEL");
  options.model = model != nullptr && *model != '\0' ? model : "smollm2-135m";
  flags.option("-m,--model", "MODEL",
               "a folder, a .gguf or .safetensors file, or the name of a pulled model [smollm2-135m]",
               [this](const std::string& value) -> Result<void> {
                 if (value.empty()) return Error{"a path or a name"};
                 options.model = value;
                 model_given = true;
                 return {};
               });
  flags.text("--numerics", "NAME", "mma16, fma32, int8 or auto: the arithmetic, hence the bits [auto]",
             &options.numerics);
  flags.text(
      "--mode", "NAME",
      "contract, or free: sums in the order that suits batch and threads (on a GPU by cuBLASLt), so bits vary; for "
      "comparison [contract]",
      &options.mode);
  flags.text("--device", "NAME", "cpu, cuda, or cuda:N for another than the first [cpu]", &options.device);
  flags.text("--isa", "NAME", "kernel set: auto, or one that `eadem info` lists [auto]", &options.isa);
  flags.integer("--threads", "workers; 0: one per core [0]", 0, 1024, &options.threads);
  flags.integer("--max-batch", "sequences that run at once [32]", 1, 4096, &options.max_batch);
  flags.integer("--prefill-chunk", "most rows of a step [512]", 1, 65536, &options.prefill_chunk);
  flags.integer("--mixed-chunk", "rows of prompts in a step that others draw tokens in; 0: by a cost model [0]", 0,
                65536, &options.mixed_chunk);
  flags.flag("--async-scheduling", "compute a step while the tokens of the one before are handed out",
             [this] { options.async_scheduling = true; });
  flags.flag("--no-async-scheduling", "do one after the other", [this] { options.async_scheduling = false; });
  flags.integer("--kv-blocks", "blocks of 64 positions; 0: as many as --kv-memory holds [0]", 0, 1 << 28,
                &options.kv_blocks);
  flags.option("--kv-memory", "BYTES", "memory of keys and values, e.g. 512M or 2G [1G]",
               [this](const std::string& value) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(options.kv_memory, parse_bytes(value));
                 return {};
               });
  flags.option("--max-model-len", "N", "longest prompt and answer together; 0: the model's context [0]",
               [this](const std::string& value) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(options.max_model_len, parse_integer(value, 0, int64_t{1} << 31));
                 return {};
               });
  flags.flag("--no-prefix-cache", "compute every prompt anew", [this] { options.prefix_cache = false; });
  flags.text("--speculation", "KIND", "guess coming tokens: off, ngram (from the prompt) or draft (a model) [off]",
             &options.speculation);
  flags.text("--draft-model", "MODEL", "a smaller model with the same tokenizer, for --speculation draft",
             &options.draft_model);
  flags.integer("--max-draft", "most guesses of an answer in a step [8]", 1, 32, &options.max_draft);
  flags.integer("--force-preempt", "preempt a sequence each time it has drawn N tokens, for tests; 0: never [0]", 0,
                1 << 30, &options.force_preempt);
  flags.flag("--recheck-weights", "hash every weight again, also where the cache knows the digest of these files",
             &options.recheck_weights);
  flags.text("--replica", "NAME", "which of many like engines this is; the deployment tells a digest of it",
             &options.replica);
  flags.text("--trace", "FILE", "write a digest of each row, layer and op", &options.trace_file);
  flags.flag("--kv-hash", "add a hash of the keys and values to each answer", &options.kv_hash);
  flags.flag("--stats", "counters as JSON on stderr at the end", &stats);
}

Result<Engine> EngineFlags::open() const {
  const Waiting note("loading " + options.model);
  return Engine::open(options);
}

namespace {

void print_stats(const Engine& engine) {
  const Counters c = engine.counters();
  nlohmann::ordered_json object;
  for (const api::NamedCounter& counter : api::kCounters) object[counter.name] = c.*counter.field;
  object["isa"] = engine.info().isa;
  object["threads"] = engine.info().threads;
  std::fprintf(stderr, "%s\n", object.dump().c_str());
}

}  // namespace

Result<int> end_run(const EngineFlags& flags, Engine& engine, Result<int> status) {
  if (flags.stats) print_stats(engine);
  if (status.ok()) EADEM_RETURN_IF_ERROR(engine.finish_trace());
  return status;
}

}  // namespace eadem::cli
