#include <cstdio>
#include <memory>

#include "api/request_json.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/receipt_flags.h"
#include "cli/sampling_flags.h"
#include "cli/terminal.h"

namespace eadem::cli {
namespace {

using json = nlohmann::ordered_json;  // keeps the order of fields

constexpr int kTerminalTokens = 256;  // of an answer to PROMPT without --max-tokens

struct Options {
  EngineFlags engine;
  SamplingFlags sampling;
  BatchFiles files;
  ReceiptFlags receipts;
  std::string prompt, system;
  std::vector<int32_t> token_ids;
  bool raw = false, json = false, verbose = false;
};

Result<void> check(const Options& options) {
  const bool ids = !options.token_ids.empty(), text = !options.prompt.empty(), batch = !options.files.in.empty();
  if (ids + text + batch == 0) return Error{"a prompt is needed: generate PROMPT, --token-ids IDS or --in FILE"};
  if (ids + text + batch > 1) return Error{"give one of PROMPT, --token-ids and --in"};
  if (options.raw && batch) return Error{"--raw goes with a PROMPT; a line of --in says 'prompt' or 'messages'"};
  if (!batch && options.files.out != "-") return Error{"--out goes with --in"};
  if (!options.system.empty() && (options.raw || !text)) return Error{"--system goes with a PROMPT and without --raw"};
  return {};
}

Result<int> run_file(const Options& options, Engine& engine, const SamplingParams& defaults, ReceiptWriter* receipts) {
  BatchJob job;
  job.files = options.files;
  job.prepare = [&](const json& line) -> Result<Request> {
    EADEM_ASSIGN_OR_RETURN(auto parsed, api::parse_request(line, defaults));
    EADEM_ASSIGN_OR_RETURN(Request request, api::resolve(engine, std::move(parsed)));
    request.receipt = receipts != nullptr;
    return request;
  };
  job.render = [&](const Request& request, const Completion& answer) { return api::to_json(engine, request, answer); };
  if (receipts != nullptr) {
    job.sign = [&, receipts](const Request& request, const Completion& answer) {
      return receipts->write(engine, request, answer);
    };
  }
  return run_batch(engine, options.engine.options.max_batch, job);
}

Result<Request> make_request(const Options& options, const Engine& engine, SamplingParams sampling) {
  api::ParsedRequest parsed;
  parsed.sampling = std::move(sampling);
  const bool chat = options.token_ids.empty() && !options.raw && engine.info().has_chat_template;
  if (chat) {
    json messages = json::array();
    if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
    messages.push_back({{"role", "user"}, {"content", options.prompt}});
    parsed.messages = messages.dump(-1, ' ', false, json::error_handler_t::replace);
  } else if (!options.system.empty()) {
    return Error{"--system: the model has no chat template"};
  } else if (options.token_ids.empty()) {
    parsed.prompt = options.prompt;
  } else {
    parsed.prompt = options.token_ids;
  }
  if (options.verbose)
    print_note(chat ? "the prompt is a message of the model's chat template" : "the prompt is completed as it is");
  return api::resolve(engine, std::move(parsed));
}

void print_answers(const Options& options, const Engine& engine, const Request& request,
                   const std::vector<Completion>& answers) {
  for (const Completion& answer : answers) {
    if (options.json) {
      std::puts(to_line(api::to_json(engine, request, answer)).c_str());
      continue;
    }
    if (answers.size() > 1) std::printf("--- %d\n", answer.index);
    std::fwrite(answer.text.data(), 1, answer.text.size(), stdout);
    std::putchar('\n');
  }
}

// Text as it comes; a model without a tokenizer has token ids alone.
bool stream(const SampledToken& token, std::string_view text, bool has_text) {
  if (has_text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    std::printf("%d ", token.token);
  }
  std::fflush(stdout);
  return !interrupted();
}

Result<int> run_prompt(const Options& options, Engine& engine, SamplingParams sampling, ReceiptWriter* receipts) {
  if (!options.sampling.fields.contains("max_tokens")) sampling.max_tokens = kTerminalTokens;
  EADEM_ASSIGN_OR_RETURN(Request request, make_request(options, engine, std::move(sampling)));
  request.receipt = receipts != nullptr;
  const bool streams = !options.json && request.sampling.n == 1;
  const bool has_text = engine.info().has_tokenizer;
  catch_interrupts();
  Progress bar;
  uint64_t drawn = 0;
  Callbacks callbacks;
  callbacks.on_token = [&](int, const SampledToken& token, std::string_view text) {
    if (streams) return stream(token, text, has_text);
    bar.show(0, 0, std::to_string(++drawn) + " tokens");
    return !interrupted();
  };
  EADEM_ASSIGN_OR_RETURN(const auto answers, engine.generate(request, std::move(callbacks)));
  bar.clear();
  if (streams) std::putchar('\n');
  for (const Completion& answer : answers) {
    if (answer.finish_reason == FinishReason::kError) return Error{answer.error};
  }
  if (interrupted()) return kInterrupted;
  for (const Completion& answer : answers) {
    if (receipts != nullptr) EADEM_RETURN_IF_ERROR(receipts->write(engine, request, answer));
  }
  if (!streams) print_answers(options, engine, request, answers);
  return 0;
}

Result<int> run(const Options& options) {
  EADEM_RETURN_IF_ERROR(check(options));
  EADEM_ASSIGN_OR_RETURN(auto signer, options.receipts.load_key());
  EADEM_ASSIGN_OR_RETURN(Engine engine, options.engine.open());
  EADEM_ASSIGN_OR_RETURN(const SamplingParams sampling, options.sampling.over(engine));
  EADEM_ASSIGN_OR_RETURN(auto receipts, options.receipts.open(engine, std::move(signer), options.files.overwrite));
  ReceiptWriter* const writer = receipts ? &*receipts : nullptr;
  const auto status = options.files.in.empty() ? run_prompt(options, engine, sampling, writer)
                                               : run_file(options, engine, sampling, writer);
  return end_run(options.engine, engine, status);
}

}  // namespace

Run add_generate(Flags flags) {
  auto options = std::make_shared<Options>();
  flags.positional(
      "PROMPT", "what to answer: a message of the model's chat template, where it has one, else a text to go on with",
      &options->prompt);
  flags.flag("--raw", "go on with PROMPT as it is, without the chat template", &options->raw);
  flags.text("--system", "TEXT", "the system message before PROMPT", &options->system);
  flags.option("--token-ids", "IDS", "the prompt as token ids: \"1 2 3\"",
               [o = options.get()](const std::string& text) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(const auto ids, parse_integers(text, 0, INT32_MAX));
                 o->token_ids.assign(ids.begin(), ids.end());
                 return {};
               });
  options->files.add(flags);
  flags.flag("--json", "the answers as JSON objects, one a line", &options->json);
  flags.flag("--verbose", "say on stderr how the prompt is used", &options->verbose);
  options->receipts.add(flags);
  options->engine.add(flags);
  options->sampling.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
