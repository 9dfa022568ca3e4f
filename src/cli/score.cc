#include <algorithm>
#include <cmath>
#include <memory>

#include "api/request_json.h"
#include "cli/batch.h"
#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/receipt_flags.h"
#include "cli/sampling_flags.h"

namespace eadem::cli {
namespace {

using nlohmann::ordered_json;
using json = ordered_json;  // keeps the order of fields

struct Options {
  EngineFlags engine;
  BatchFiles files;
  ReceiptFlags receipts;
  json fields = json::object();
};

// Takes the text 'completion' out of a line; empty: the prompt itself is scored.
Result<std::string> take_completion(json& line) {
  const auto found = line.find("completion");
  if (found == line.end()) return std::string();
  if (line.contains("golden_token_ids")) return Error{"give one of 'completion' and 'golden_token_ids'"};
  if (!found->is_string() || found->get<std::string>().empty()) {
    return Error{"field 'completion' must be a text of at least one token (token ids go into 'golden_token_ids')"};
  }
  auto text = found->get<std::string>();
  line.erase(found);
  return text;
}

// The completion's tokens as they follow the prompt's: both are tokenised as one text, since many tokenizers would
// begin a text of its own with another token.
Result<std::vector<int32_t>> completion_tokens(const Engine& engine, const api::ParsedRequest& parsed,
                                               const std::string& completion) {
  std::string text;
  const bool chat = !parsed.messages.empty();
  if (chat) {
    EADEM_ASSIGN_OR_RETURN(text, engine.render_chat(parsed.messages, parsed.tools, parsed.template_kwargs));
  } else if (const auto* prompt = std::get_if<std::string>(&parsed.prompt)) {
    text = *prompt;
  } else {
    return Error{"'completion' goes with a text; after a prompt of token ids give 'golden_token_ids'"};
  }
  EADEM_ASSIGN_OR_RETURN(const auto before, engine.tokenize(text, !chat));
  EADEM_ASSIGN_OR_RETURN(auto whole, engine.tokenize(text + completion, !chat));
  if (whole.size() <= before.size() || !std::equal(before.begin(), before.end(), whole.begin())) {
    return Error{
        "the prompt's last token and the completion's first are one token together: move spaces from the end of the "
        "prompt to the beginning of the completion, or give token ids"};
  }
  whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return whole;
}

// A completion is a forced continuation, the path of generation itself; a prompt alone is read and not gone on from.
Result<Request> prepare(const Engine& engine, const SamplingParams& defaults, json line) {
  if (!line.is_object()) return Error{"a line must be a JSON object"};
  for (const char* field :
       {"max_tokens", "max_completion_tokens", "min_tokens", "n", "stop", "stop_token_ids", "ignore_eos"}) {
    if (line.contains(field)) return Error{"field '" + std::string(field) + "' says nothing about scoring: remove it"};
  }
  EADEM_ASSIGN_OR_RETURN(const std::string completion, take_completion(line));
  EADEM_ASSIGN_OR_RETURN(auto parsed, api::parse_request(line, defaults));
  SamplingParams& sampling = parsed.sampling;
  if (!completion.empty()) {
    EADEM_ASSIGN_OR_RETURN(sampling.golden_token_ids, completion_tokens(engine, parsed, completion));
  }
  sampling.max_tokens = static_cast<int>(sampling.golden_token_ids.size());
  if (sampling.golden_token_ids.empty()) {
    sampling.prompt_logprobs = std::max({sampling.prompt_logprobs, sampling.logprobs, 0});
    sampling.logprobs = -1;
  } else {
    sampling.logprobs = std::max(sampling.logprobs, 0);
  }
  // Nothing is drawn, so no seed can matter.
  sampling.seed = sampling.seed.value_or(0);
  return api::resolve(engine, std::move(parsed));
}

// The codec's answer with sums over the scored tokens: the completion's, else the prompt's but for the first. Double
// sums in order.
ordered_json render(const Engine& engine, const Request& request, const Completion& answer) {
  ordered_json object = api::to_json(engine, request, answer);
  const auto& tokens = answer.tokens.empty() ? answer.prompt_tokens : answer.tokens;
  double sum = 0.0;
  int64_t count = 0;
  bool masked = false;
  for (size_t i = answer.tokens.empty() ? 1 : 0; i < tokens.size(); ++i) {
    masked = masked || std::isnan(tokens[i].logprob);
    sum += double{tokens[i].logprob};
    ++count;
  }
  const bool known = count > 0 && !masked;
  object["sum"] = known ? ordered_json(sum) : count == 0 ? ordered_json(0.0) : ordered_json(nullptr);
  object["count"] = count;
  object["perplexity"] = known ? ordered_json(std::exp(-sum / static_cast<double>(count))) : ordered_json(nullptr);
  return object;
}

Result<int> run(const Options& options) {
  if (options.files.in.empty())
    return Error{"--in FILE is needed: lines with 'prompt' (text or token ids) or 'messages'"};
  EADEM_ASSIGN_OR_RETURN(auto signer, options.receipts.load_key());
  EADEM_ASSIGN_OR_RETURN(Engine engine, options.engine.open());
  EADEM_ASSIGN_OR_RETURN(const SamplingParams defaults, api::parse_sampling(options.fields, engine.default_sampling()));
  EADEM_ASSIGN_OR_RETURN(auto receipts, options.receipts.open(engine, std::move(signer), options.files.overwrite));
  BatchJob job;
  job.files = options.files;
  job.prepare = [&](json line) -> Result<Request> {
    EADEM_ASSIGN_OR_RETURN(Request request, prepare(engine, defaults, std::move(line)));
    request.receipt = receipts.has_value();
    return request;
  };
  if (receipts) {
    job.sign = [&](const Request& request, const Completion& answer) {
      return receipts->write(engine, request, answer);
    };
  }
  job.render = [&](const Request& request, const Completion& answer) { return render(engine, request, answer); };
  const auto status = run_batch(engine, options.engine.options.max_batch, job);
  return end_run(options.engine, engine, status);
}

}  // namespace

Run add_score(Flags flags) {
  auto options = std::make_shared<Options>();
  options->files.add(flags);
  flags.option("--logprobs", "K", "also the K most likely tokens [0]",
               [o = options.get()](const std::string& text) -> Result<void> {
                 EADEM_ASSIGN_OR_RETURN(const int64_t count, parse_integer(text, 0, INT32_MAX));
                 o->fields["logprobs"] = count;
                 return {};
               });
  flags.flag("--json", "the output is JSON in any case", [] {});
  options->receipts.add(flags);
  options->engine.add(flags);
  return [options] { return run(*options); };
}

}  // namespace eadem::cli
