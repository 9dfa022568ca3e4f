#include "cli/sampling_flags.h"

#include <algorithm>
#include <utility>

#include "api/request_json.h"
#include "sampler/sampler.h"

namespace eadem::cli {
namespace {

using nlohmann::json;

std::string option_of(std::string field) {
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

// Takes a field where the codec of requests takes it; its error loses the name, which the option's own replaces.
Result<void> take(json& fields, const std::string& field, json value) {
  const auto parsed = api::parse_sampling({{field, value}}, {});
  if (!parsed.ok()) {
    const std::string& message = parsed.error().message;
    constexpr std::string_view kMust = "must be ";
    const size_t at = message.find(kMust);
    return Error{at == std::string::npos ? message : message.substr(at + kMust.size())};
  }
  fields[field] = std::move(value);
  return {};
}

json number_or_text(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_number() ? value : json(text);
}

Result<void> take_bias(json& fields, const std::string& text) {
  const size_t equals = text.find('=');
  const Error wanted{"ID=BIAS with a token id and a number, as 50256=-100"};
  if (equals == std::string::npos) return wanted;
  const json bias = {{text.substr(0, equals), number_or_text(text.substr(equals + 1))}};
  if (!api::parse_sampling({{"logit_bias", bias}}, {}).ok()) return wanted;
  fields["logit_bias"].update(bias);
  return {};
}

}  // namespace

void SamplingFlags::add(Flags& flags) {
  const auto number = [&](const std::string& field, const std::string& placeholder, const std::string& help) {
    flags.option(option_of(field), placeholder, help,
                 [this, field](const std::string& text) { return take(fields, field, number_or_text(text)); });
  };
  const auto tokens = [&](const std::string& field, const std::string& help) {
    flags.option(option_of(field), "IDS", help, [this, field](const std::string& text) -> Result<void> {
      EADEM_ASSIGN_OR_RETURN(const auto ids, parse_integers(text, 0, INT32_MAX));
      fields[field] = ids;
      return {};
    });
  };
  const auto on = [&](const std::string& name, const std::string& field, bool value, const std::string& help) {
    flags.flag(name, help, [this, field, value] { fields[field] = value; });
  };
  number("max_tokens", "N", "tokens to draw at most");
  number("min_tokens", "N", "no end before so many tokens [0]");
  number("temperature", "X", "0: always the most likely token [1, or the model's default]");
  number("top_k", "N", "draw among the N most likely; 0: all [0]");
  number("top_p", "X", "draw among the most likely that hold this probability [1]");
  number("min_p", "X", "leave out what is less likely than X times the likeliest [0]");
  number("repetition_penalty", "X", "divide the logits of tokens seen [1]");
  number("presence_penalty", "X", "lower the logits of tokens drawn before [0]");
  number("frequency_penalty", "X", "lower them by X each time [0]");
  number("seed", "N", "answers with a seed can be had again; one is drawn and told otherwise");
  number("n", "N", "answers to each prompt [1]");
  number("logprobs", "K", "logprobs of the tokens, and of the K most likely");
  number("prompt_logprobs", "K", "likewise for the prompt's tokens");
  flags.option("--logprobs-mode", "MODE", "raw or processed (after penalties, temperature, top-k, top-p, min-p) [raw]",
               [this](const std::string& text) { return take(fields, "logprobs_mode", text); });
  flags.repeated("--logit-bias", "ID=BIAS", "add BIAS to the logit of a token; may be repeated",
                 [this](const std::string& text) { return take_bias(fields, text); });
  flags.repeated("--stop", "TEXT", "end the answer before this text; may be repeated",
                 [this](const std::string& text) -> Result<void> {
                   if (text.empty()) return Error{"a text of at least one byte"};
                   fields["stop"].push_back(text);
                   return {};
                 });
  tokens("stop_token_ids", "end the answer at one of these tokens");
  tokens("golden_token_ids", "the answer follows these tokens, and tells their logprobs");
  on("--ignore-eos", "ignore_eos", true, "do not end at an end-of-text token");
  on("--include-stop-str-in-output", "include_stop_str_in_output", true, "keep the stop text in the answer");
  on("--skip-special-tokens", "skip_special_tokens", true, "leave special tokens out of the text (so it is)");
  on("--no-skip-special-tokens", "skip_special_tokens", false, "keep them in the text");
}

Result<SamplingParams> SamplingFlags::over(const Engine& engine) const {
  EADEM_ASSIGN_OR_RETURN(SamplingParams sampling, api::parse_sampling(fields, engine.default_sampling()));
  // A line may raise what another option needs; lengths are checked with the line.
  SamplingParams checked = sampling;
  checked.max_tokens = std::max(checked.max_tokens, 1);
  checked.min_tokens = std::min(checked.min_tokens, checked.max_tokens);
  checked.golden_token_ids.clear();
  EADEM_RETURN_IF_ERROR(sampler::check_params(checked, engine.info().vocab));
  return sampling;
}

}  // namespace eadem::cli
