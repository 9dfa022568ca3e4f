// A device's draw by this machine's sampler.
#pragma once

#include <span>
#include <vector>

#include "kernels/device.h"
#include "sampler/sampler.h"
#include "sampler/selection.h"

namespace eadem::testing {

inline kernels::DeviceDrawn draw_on_host(const kernels::KernelSet& set, sampler::Sampler& sampler,
                                         std::span<const float> logits, const kernels::DeviceDraw& asked) {
  kernels::DeviceDrawn drawn{};
  SamplingParams params;
  params.temperature = asked.temperature, params.top_p = asked.top_p, params.min_p = asked.min_p;
  params.top_k = asked.top_k;
  sampler::Draw draw;
  draw.logits = logits.data();
  draw.params = &params;
  draw.seed = asked.seed, draw.position = asked.position, draw.forced = asked.forced;
  draw.logprobs = 0;
  const auto result = sampler.draw(draw);
  drawn.token = -1;
  if (!result.ok()) return drawn;
  drawn.token = result.value().token;
  drawn.logit = logits[static_cast<size_t>(drawn.token)];
  const kernels::LogSum sum = set.log_sum(logits.data(), static_cast<int>(logits.size()));
  drawn.max = sum.max, drawn.sum = sum.sum;
  std::vector<sampler::Candidate> top;
  if (asked.top > 0) sampler::first_k(logits, asked.top, top);
  sampler::sort_candidates(top);
  for (size_t i = 0; i < kernels::kDeviceTop; ++i) {
    drawn.top_tokens[i] = i < top.size() ? top[i].token : -1;
    drawn.top_logits[i] = i < top.size() ? top[i].logit : 0.0f;
  }
  return drawn;
}

}  // namespace eadem::testing
