// Draws that a device makes: those that need nothing but the logits of their own row (kernels::DeviceDraw).
#pragma once

#include "kernels/device.h"
#include "sampler/sampler.h"

namespace eadem::sampler {

// Whether a device can make it. `draw.allowed` is not looked at: whoever has a grammar does not ask.
bool draws_alone(const Draw& draw);
// Of a draw that a device can make; vocab: tokens of the model.
kernels::DeviceDraw device_draw(const Draw& draw, int64_t vocab);
// What Sampler::draw would have returned.
Result<SampledToken> read_drawn(const Draw& draw, const kernels::DeviceDrawn& drawn);

}  // namespace eadem::sampler
