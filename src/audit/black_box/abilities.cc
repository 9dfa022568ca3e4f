#include "audit/black_box/abilities.h"

#include <algorithm>

#include "audit/black_box/request.h"

namespace eadem::audit::black_box {
namespace {

using nlohmann::ordered_json;
using Fault = Sent::Fault;

// Gauges that say how many requests an engine works on: eadem's, vLLM's, SGLang's, llama.cpp's, TGI's.
constexpr const char* kGauges[] = {"eadem_requests_running", "vllm:num_requests_running", "sglang:num_running_reqs",
                                   "llamacpp:requests_processing", "tgi_batch_current_size"};
constexpr int kProbeTokens = 6;

// Asks one small thing after the other. What is told once goes into the next request, so that the last probes are
// requests as the matrix sends them.
class Discovery {
 public:
  Discovery(Traffic& traffic, const EndpointOptions& options) : traffic_(traffic), options_(options) {}

  Result<Abilities> run();

 private:
  Result<void> find_model();
  Result<void> find_answers();
  void find_fields();
  void find_scoring();
  void find_streaming();
  void find_gauge();
  void find_fingerprint();
  std::shared_ptr<Sent> probe(const Wish& wish) { return traffic_.ask_alone(ask_of(wish, can_)); }
  bool chat_answers();
  Wish small() const {
    Wish wish;
    wish.prompt = words(24, 1);
    wish.max_tokens = kProbeTokens;
    wish.stream = false;
    return wish;
  }
  // Whether a request with one ability more is answered; the ability stays only then.
  std::shared_ptr<Sent> attempt(bool Abilities::* ability, Wish wish);

  Traffic& traffic_;
  const EndpointOptions& options_;
  Abilities can_;
};

Result<void> Discovery::find_model() {
  const Page page = traffic_.get("/models", false);
  if (!page.fault.empty()) return Error{page.fault + (page.unreachable ? "; is the server running?" : "")};
  if (page.status == 401 || page.status == 403) {
    return Error{traffic_.url() + "/models: access refused (HTTP " + std::to_string(page.status) + "); " +
                 (options_.api_key.empty() ? "give the endpoint's key (--api-key-file, or EADEM_API_KEY)"
                                           : "the key that was given is not accepted")};
  }
  const ordered_json parsed = ordered_json::parse(page.text, nullptr, false);
  if (page.status == 200 && parsed.is_object() && parsed.contains("data") && parsed["data"].is_array()) {
    for (const ordered_json& model : parsed["data"]) {
      if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
      can_.models.push_back(model["id"].get<std::string>());
      const bool ours = options_.model.empty() ? can_.models.size() == 1 : can_.models.back() == options_.model;
      if (ours && model.contains("max_model_len") && model["max_model_len"].is_number_integer())
        can_.context = model["max_model_len"].get<int64_t>();
    }
  }
  if (!options_.model.empty()) {
    can_.model = options_.model;
  } else if (can_.models.empty()) {
    return Error{traffic_.url() + "/models names no model (HTTP " + std::to_string(page.status) +
                 "): give its name with --endpoint-model, and check that the URL is an OpenAI-compatible server's"};
  } else {
    can_.model = can_.models.front();
  }
  return {};
}

bool Discovery::chat_answers() {
  Wish wish = small();
  wish.chat = true;
  if (probe(wish)->ok()) return true;
  can_.max_tokens = "max_completion_tokens";
  if (!can_.completions && probe(wish)->ok()) return true;
  can_.max_tokens = "max_tokens";
  return false;
}

Result<void> Discovery::find_answers() {
  can_.completions = true;
  const auto first = probe(small());
  can_.completions = first->ok();
  if (traffic_.stopped()) return Error{"interrupted"};
  // What is no matter of the path need not be asked again.
  const bool final = first->fault != Fault::kNone && first->fault != Fault::kMissing &&
                     first->fault != Fault::kRejected && first->fault != Fault::kFailed;
  if (final) return Error{first->message};
  can_.chat = chat_answers();
  if (!can_.completions && !can_.chat) {
    return Error{first->message + "; chat/completions does not answer either"};
  }
  return {};
}

std::shared_ptr<Sent> Discovery::attempt(bool Abilities::* ability, Wish wish) {
  can_.*ability = true;
  auto sent = probe(wish);
  can_.*ability = sent->ok();
  return sent;
}

void Discovery::find_fields() {
  auto sent = attempt(&Abilities::logprobs, small());
  if (sent->ok()) {
    const Choice& choice = sent->answer.choices.front();
    can_.logprobs = !choice.logprobs.empty() && choice.logprobs.front().is_number();
  }
  sent = attempt(&Abilities::token_ids, small());
  if (sent->ok()) can_.token_ids = !sent->answer.choices.front().token_ids.empty();
  Wish longer = small();
  longer.max_tokens = 4 * kProbeTokens;
  sent = attempt(&Abilities::ignore_eos, longer);
  Wish seeded = small();
  seeded.temperature = 1.0;
  seeded.seed = 7;
  attempt(&Abilities::seed, seeded);
  seeded.n = 2;
  if (!can_.seed) seeded.seed.reset();
  sent = attempt(&Abilities::n, seeded);
  if (sent->ok()) {
    can_.n = sent->answer.choices.size() == 2;
    can_.answer_seeds = sent->answer.answer_seeds.size() == 2;
  }
  Wish long_prompt = small();
  long_prompt.prompt = words(60, 2);
  sent = probe(long_prompt);
  if (!sent->ok()) return;
  can_.usage = sent->answer.prompt_tokens > 0;
  can_.cached_tokens = sent->answer.cached_tokens >= 0;
  can_.fingerprint = !sent->answer.system_fingerprint.empty();
  if (can_.usage) can_.tokens_per_word = std::max(0.5, static_cast<double>(sent->answer.prompt_tokens) / 60.0);
}

void Discovery::find_scoring() {
  if (!can_.completions) return;
  Wish wish = small();
  if (can_.token_ids) {
    const auto sent = probe(wish);
    if (!sent->ok() || sent->answer.choices.front().prompt_token_ids.empty()) return;
    wish.prompt_ids = sent->answer.choices.front().prompt_token_ids;
    can_.token_prompt = probe(wish)->ok();
  }
  if (!can_.token_prompt || !can_.logprobs) return;
  wish.echo = true;
  wish.max_tokens = 1;
  const auto sent = probe(wish);
  can_.echo = sent->ok() && sent->answer.choices.front().logprobs.size() == wish.prompt_ids.size() + 1;
}

void Discovery::find_streaming() {
  Wish wish = small();
  wish.max_tokens = 4 * kProbeTokens;
  wish.stream = true;
  can_.stream_usage = true;
  auto sent = attempt(&Abilities::streaming, wish);
  if (!sent->ok()) {
    can_.stream_usage = false;
    sent = attempt(&Abilities::streaming, wish);
  }
  can_.stream_usage = can_.stream_usage && sent->ok() && sent->answer.completion_tokens >= 0;
  if (!sent->ok() && can_.token_ids) {  // some give them in whole replies alone
    can_.token_ids = false;
    sent = attempt(&Abilities::streaming, wish);
  }
  if (!sent->ok()) {
    can_.no_stream = "the endpoint does not stream: " + sent->message;
    return;
  }
  // What a stream leaves out cannot be compared with it.
  const Choice& choice = sent->answer.choices.front();
  can_.logprobs = can_.logprobs && !choice.logprobs.empty();
  can_.token_ids = can_.token_ids && !choice.token_ids.empty();
  int tokens = 0;
  for (const Sent::Mark& mark : sent->marks) tokens += mark.tokens;
  can_.token_seconds = sent->seconds / std::max(tokens, 1);
}

void Discovery::find_gauge() {
  const Page page = traffic_.get("/metrics", true);
  if (page.status != 200) return;
  for (const char* name : kGauges) {
    if (!sample_of(page.text, name)) continue;
    can_.gauge = name;
    return;
  }
}

void Discovery::find_fingerprint() {
  const Page page = traffic_.get("/fingerprint", false);
  const ordered_json parsed = ordered_json::parse(page.text, nullptr, false);
  if (page.status != 200 || !parsed.is_object()) return;
  can_.fingerprint_document = ordered_json::object();
  for (const char* field : {"fingerprint", "numerics"}) {
    if (parsed.contains(field) && parsed[field].is_string()) can_.fingerprint_document[field] = parsed[field];
  }
}

Result<Abilities> Discovery::run() {
  EADEM_RETURN_IF_ERROR(find_model());
  EADEM_RETURN_IF_ERROR(find_answers());
  find_fields();
  find_scoring();
  find_streaming();
  find_gauge();
  find_fingerprint();
  if (traffic_.stopped()) return Error{"interrupted"};
  return std::move(can_);
}

}  // namespace

Result<Abilities> discover(Traffic& traffic, const EndpointOptions& options) {
  return Discovery(traffic, options).run();
}

ordered_json to_json(const Abilities& can) {
  return {{"model", can.model},
          {"models", can.models},
          {"completions", can.completions},
          {"chat", can.chat},
          {"streaming", can.streaming ? ordered_json(true) : ordered_json(can.no_stream)},
          {"logprobs", can.logprobs},
          {"token_ids", can.token_ids},
          {"token_prompts", can.token_prompt},
          {"scoring", can.echo},
          {"seed", can.seed},
          {"n", can.n},
          {"answer_seeds", can.answer_seeds},
          {"ignore_eos", can.ignore_eos},
          {"cached_tokens", can.cached_tokens},
          {"system_fingerprint", can.fingerprint},
          {"running_gauge", can.gauge.empty() ? ordered_json() : ordered_json(can.gauge)},
          {"context_tokens", can.context > 0 ? ordered_json(can.context) : ordered_json()},
          {"fingerprint", can.fingerprint_document},
          {"compared", can.level()}};
}

}  // namespace eadem::audit::black_box
