#include "sampler/device_draw.h"

#include "numerics/sampling.h"

namespace eadem::sampler {

bool draws_alone(const Draw& draw) {
  if (draw.logprobs > kernels::kDeviceTop || (draw.processed && draw.logprobs >= 0)) return false;
  return draw.counts == nullptr && draw.masked.empty() && draw.params->logit_bias.empty();
}

kernels::DeviceDraw device_draw(const Draw& draw, int64_t vocab) {
  const SamplingParams& params = *draw.params;
  kernels::DeviceDraw result;
  result.seed = draw.seed;
  result.position = draw.position;
  result.temperature = params.temperature;
  result.top_p = params.top_p;
  result.min_p = params.min_p;
  result.top_k = params.top_k > 0 && params.top_k < vocab ? static_cast<int32_t>(params.top_k) : 0;
  result.forced = draw.forced;
  result.top = draw.logprobs > 0 ? draw.logprobs : 0;
  return result;
}

Result<SampledToken> read_drawn(const Draw& draw, const kernels::DeviceDrawn& drawn) {
  SampledToken result;
  result.token = draw.forced;
  // A token that is given needs no logits unless its logprob is asked for.
  if (draw.forced >= 0 && draw.logprobs < 0) return result;
  if (drawn.token < 0) return not_finite();
  result.token = drawn.token;
  if (draw.logprobs < 0) return result;
  result.logprob = numerics::log_probability(drawn.logit, drawn.max, drawn.sum);
  result.top.reserve(static_cast<size_t>(draw.logprobs));
  for (int i = 0; i < draw.logprobs && drawn.top_tokens[i] >= 0; ++i) {  // fewer where fewer have a chance at all
    result.top.push_back({drawn.top_tokens[i], numerics::log_probability(drawn.top_logits[i], drawn.max, drawn.sum)});
  }
  return result;
}

}  // namespace eadem::sampler
