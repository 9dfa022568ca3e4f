// POST /v1/verify: runs an answer again from what its reply told, and says whether the bits are equal.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/answer.h"
#include "api/request_json.h"
#include "server/openai/ask.h"
#include "server/openai/endpoints.h"
#include "server/openai/job.h"
#include "server/openai/prepare.h"

namespace eadem::server {
namespace {

using nlohmann::ordered_json;

struct Claim {
  std::string model;
  Request request;
  std::vector<int32_t> tokens;
  std::optional<std::vector<std::optional<float>>> logprobs;  // an entry is absent where it was masked
};

Result<std::vector<std::optional<float>>> read_logprobs(const ordered_json& value) {
  constexpr std::string_view kWanted = "an array with a number or null for each of token_ids";
  if (!value.is_array()) return must_be("logprobs", kWanted);
  std::vector<std::optional<float>> logprobs;
  for (const ordered_json& entry : value) {
    if (!entry.is_null() && !entry.is_number()) return must_be("logprobs", kWanted);
    const double number = entry.is_null() ? NAN : entry.get<double>();
    if (!entry.is_null() && !(std::abs(number) <= 3e38)) return must_be("logprobs", kWanted);
    const bool masked = entry.is_null() || number == -9999.0;  // as OpenAI's fields show it
    logprobs.push_back(masked ? std::nullopt : std::optional(static_cast<float>(number)));
  }
  return logprobs;
}

const ordered_json* member(const ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<uint64_t> read_seed(const ordered_json& eadem) {
  const ordered_json* const seed = member(eadem, "seed");
  if (seed == nullptr || !seed->is_number_unsigned()) return must_be("eadem.seed", "the seed that the reply told");
  return seed->get<uint64_t>();
}

// The object of that name in the reply: whose answer it is, and how it was sampled.
Result<SamplingParams> read_eadem(const Context& context, const ordered_json& eadem, int index) {
  if (!eadem.is_object()) return must_be("eadem", "the object of that name in the reply");
  const ordered_json* const identity = member(eadem, "fingerprint");
  if (identity == nullptr || !identity->is_string()) return must_be("eadem.fingerprint", "a string");
  if (*identity != context.engine.identity()) {
    return Error{"field 'eadem.fingerprint' is another model's or another numerics': this server is " +
                 context.engine.identity()};
  }
  const ordered_json* const fields = member(eadem, "sampling");
  if (fields == nullptr || !fields->is_object()) return must_be("eadem.sampling", "an object");
  auto parsed = api::parse_sampling(*fields, SamplingParams{});
  if (!parsed.ok()) return Error{"field 'eadem.sampling': " + parsed.error().message};
  SamplingParams sampling = std::move(parsed).value();
  EADEM_ASSIGN_OR_RETURN(const uint64_t seed, read_seed(eadem));
  if (index >= sampling.n) return must_be("index", "below eadem.sampling.n");
  sampling.seed = api::seed_of_answer(seed, index);  // answer `index`, as a request of its own
  sampling.n = 1;
  sampling.prompt_logprobs = sampling.max_tokens == 0 ? 0 : -1;
  return sampling;
}

Result<Claim> parse(const Context& context, std::string_view text) {
  EADEM_ASSIGN_OR_RETURN(const Body body, split_body(text, kVerify));
  for (const char* field : {"eadem", "prompt_token_ids", "token_ids"}) {
    if (!body.own.contains(field)) return Error{"field '" + std::string(field) + "' is missing"};
  }
  Claim claim;
  EADEM_RETURN_IF_ERROR(read_string(body.own, "model", claim.model));
  int64_t index = 0;
  EADEM_RETURN_IF_ERROR(read_int(body.own, "index", 0, kMaxAnswers - 1, index));
  EADEM_ASSIGN_OR_RETURN(claim.request.prompt_token_ids,
                         read_token_ids(body.own["prompt_token_ids"], "prompt_token_ids"));
  EADEM_ASSIGN_OR_RETURN(claim.tokens, read_token_ids(body.own["token_ids"], "token_ids"));
  EADEM_ASSIGN_OR_RETURN(claim.request.sampling, read_eadem(context, body.own["eadem"], static_cast<int>(index)));
  const ordered_json* const hash = member(body.own["eadem"], "prompt_hash");
  if (hash != nullptr && *hash != hash_of_tokens(claim.request.prompt_token_ids)) {
    return Error{"field 'prompt_token_ids' is not what eadem.prompt_hash was made from"};
  }
  claim.request.sampling.logprobs = -1;
  if (body.own.contains("logprobs")) {
    EADEM_ASSIGN_OR_RETURN(claim.logprobs, read_logprobs(body.own["logprobs"]));
    if (claim.logprobs->size() != claim.tokens.size()) return must_be("logprobs", "as long as token_ids");
    claim.request.sampling.logprobs = 0;
  }
  return claim;
}

ordered_json token_or_null(const std::vector<int32_t>& tokens, size_t i) {
  return i < tokens.size() ? ordered_json(tokens[i]) : ordered_json(nullptr);
}

ordered_json number_or_null(std::optional<float> value) {
  return value ? ordered_json(double{*value}) : ordered_json(nullptr);
}

class Verification final : public Job {
 public:
  Verification(std::shared_ptr<Context> context, std::shared_ptr<Reply> reply, Claim claim, Clock::time_point arrival)
      : Job(std::move(context), std::move(reply), {std::move(claim.request)}, arrival), claim_(std::move(claim)) {}

 private:
  void answered(int, std::vector<Completion>& answers) override { again_ = std::move(answers.front()); }

  void finish() override {
    const ordered_json difference = first_difference();
    const ordered_json object = {
        {"equal", difference.is_null()},
        {"compared", {{"tokens", claim_.tokens.size()}, {"logprobs", claim_.logprobs ? claim_.tokens.size() : 0}}},
        {"first_difference", difference},
        {"fingerprint", context_->engine.identity()}};
    reply_->send(200, kJson, object.dump());
  }

  ordered_json first_difference() const {
    std::vector<int32_t> tokens;
    for (const SampledToken& token : again_.tokens) tokens.push_back(token.token);
    for (size_t i = 0; i < std::max(tokens.size(), claim_.tokens.size()); ++i) {
      const ordered_json was = token_or_null(claim_.tokens, i), is = token_or_null(tokens, i);
      if (was != is) return {{"index", i}, {"what", "token"}, {"given", was}, {"computed", is}};
      if (!claim_.logprobs) continue;
      const float computed = again_.tokens[i].logprob;
      const std::optional<float> now = std::isnan(computed) ? std::nullopt : std::optional(computed);
      const std::optional<float> given = (*claim_.logprobs)[i];
      // As numbers: a client may have lost the sign of zero.
      if (given != now) {
        return {{"index", i}, {"what", "logprob"}, {"given", number_or_null(given)}, {"computed", number_or_null(now)}};
      }
    }
    return nullptr;
  }

  Claim claim_;
  Completion again_;
};

}  // namespace

void verify(const SharedContext& context, const HttpRequest& request, const SharedReply& reply) {
  const auto arrival = Job::Clock::now();
  auto claim = parse(*context, request.body);
  if (!claim.ok()) return refuse(*context, *reply, bad_request(claim.error().message, "prompt_token_ids"));
  if (!context->serves(claim.value().model)) return refuse(*context, *reply, model_not_found(claim.value().model));
  claim.value().request.deadline = deadline_of(*context, std::nullopt, arrival);
  if (const auto good = context->service.check(claim.value().request); !good.ok()) {
    return refuse(*context, *reply, bad_request(good.error().message, "prompt_token_ids"));
  }
  std::make_shared<Verification>(context, reply, std::move(claim).value(), arrival)->start();
}

}  // namespace eadem::server
