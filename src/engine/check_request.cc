#include "engine/check_request.h"

#include <algorithm>
#include <string>

#include "sampler/sampler.h"

namespace eadem::engine {
namespace {

constexpr int64_t kBlock = numerics::kKvBlock;
// Top logprobs of a request, so that one line cannot take all memory.
constexpr int64_t kMaxTopLogprobs = int64_t{1} << 22;

std::string text(int64_t x) { return std::to_string(x); }

Result<void> check_numbers(const model::Model& model, const Options& options) {
  if (options.max_batch < 1) return Error{"max_batch is " + text(options.max_batch) + "; it must be at least 1"};
  if (options.prefill_chunk < 1) {
    return Error{"prefill_chunk is " + text(options.prefill_chunk) + "; it must be at least 1"};
  }
  if (options.mixed_chunk < 0) {
    return Error{"mixed_chunk is " + text(options.mixed_chunk) + "; it must not be negative"};
  }
  if (options.max_batch > model.options().max_rows) {
    return Error{"max_batch is " + text(options.max_batch) + ", more than the " + text(model.options().max_rows) +
                 " rows that the model was loaded for; lower it, or load the model with a larger max_rows"};
  }
  if (options.kv_blocks < 0) return Error{"kv_blocks is " + text(options.kv_blocks) + "; it must not be negative"};
  if (options.force_preempt < 0) {
    return Error{"force_preempt is " + text(options.force_preempt) + "; it must not be negative"};
  }
  if (options.max_model_len < 0 || options.max_model_len > model.config().context) {
    return Error{"max_model_len is " + text(options.max_model_len) + "; it must be from 1 to the model's context, " +
                 text(model.config().context) + " (0: the context)"};
  }
  for (const int32_t token : options.eos) {
    if (token < 0 || token >= model.config().vocab) {
      return Error{"the end-of-text token " + text(token) + " is outside the model's vocabulary of " +
                   text(model.config().vocab)};
    }
  }
  return {};
}

// An embedding has every position of its prompt computed, and none after it.
Result<void> check_pooled(int64_t prompt, const Limits& limits) {
  if (prompt > limits.max_model_len) {
    return Error{"the prompt has " + text(prompt) + " tokens; the context takes at most " + text(limits.max_model_len) +
                 " (max_model_len)"};
  }
  const int64_t blocks = (prompt + kBlock - 1) / kBlock;
  if (blocks <= limits.kv_blocks) return {};
  return Error{"the prompt needs " + text(blocks) + " KV blocks of 64 positions, but there are " +
               text(limits.kv_blocks) + " in all; raise kv_blocks, or shorten the prompt"};
}

}  // namespace

Result<Limits> check_options(const model::Model& model, const kernels::KernelSet& set, const Options& options) {
  EADEM_RETURN_IF_ERROR(check_numbers(model, options));
  Limits limits;
  limits.vocab = model.config().vocab;
  limits.max_model_len = options.max_model_len > 0 ? options.max_model_len : model.config().context;
  limits.kv_blocks = options.kv_blocks;
  if (options.kv_blocks > 0) return limits;
  const int64_t wanted = (limits.max_model_len + kBlock - 1) / kBlock * options.max_batch;
  const size_t block_bytes = model::KvPool::block_bytes(set, model.attention_shape(), model.config().layers);
  const int64_t affordable = static_cast<int64_t>(options.kv_memory / block_bytes);
  if (affordable < 1) {
    return Error{"kv_memory is " + text(static_cast<int64_t>(options.kv_memory)) + " bytes, but one KV block takes " +
                 text(static_cast<int64_t>(block_bytes)) + "; raise it"};
  }
  limits.kv_blocks = static_cast<int>(std::min<int64_t>({wanted, affordable, INT32_MAX}));
  return limits;
}

Result<void> check_request(const SequenceRequest& request, const Limits& limits) {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return Error{"prompt_token_ids is empty; give at least one token"};
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= limits.vocab) {
      return Error{"prompt_token_ids holds " + text(token) + "; the model's token ids go from 0 to " +
                   text(limits.vocab - 1)};
    }
  }
  if (request.pooling != Pooling::kNone) return check_pooled(prompt, limits);
  EADEM_RETURN_IF_ERROR(sampler::check_params(request.sampling, limits.vocab));
  const SamplingParams& sampling = request.sampling;
  if (sampling.guide.has_value() != (request.guide != nullptr)) {
    return Error{"guide: it needs the tokens' text, which the engine alone does not know"};
  }
  const int64_t answer = std::min<int64_t>(sampling.max_tokens, limits.max_model_len);
  const int64_t entries =
      sampling.n * (answer * std::max(sampling.logprobs, 0) + prompt * std::max(sampling.prompt_logprobs, 0));
  if (entries > kMaxTopLogprobs) {
    return Error{"logprobs and prompt_logprobs ask for " + text(entries) +
                 " entries over all tokens and answers; at most " + text(kMaxTopLogprobs) +
                 " are given: lower them, or max_tokens or n"};
  }
  const int64_t max_tokens = request.sampling.max_tokens;
  const int64_t longest = limits.max_model_len - (max_tokens > 0 ? 1 : 0);
  if (prompt > longest) {
    return Error{"the prompt has " + text(prompt) + " tokens; the context of " + text(limits.max_model_len) +
                 " positions (max_model_len) takes at most " + text(longest)};
  }
  const int64_t forced = prompt + static_cast<int64_t>(request.sampling.golden_token_ids.size());
  if (forced > limits.max_model_len) {
    return Error{"the prompt and golden_token_ids together have " + text(forced) +
                 " tokens; the context takes at most " + text(limits.max_model_len)};
  }
  // The last token's keys and values are never computed.
  const int64_t positions = std::max<int64_t>(std::min(prompt + max_tokens, limits.max_model_len) - 1, 0);
  const int64_t blocks = (positions + kBlock - 1) / kBlock;
  if (blocks > limits.kv_blocks) {
    return Error{"the prompt and max_tokens need " + text(blocks) + " KV blocks of 64 positions, but there are " +
                 text(limits.kv_blocks) + " in all; raise kv_blocks, or shorten the prompt or max_tokens"};
  }
  return {};
}

}  // namespace eadem::engine
