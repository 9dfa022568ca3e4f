// Scales that are not finite would make weights that are not numbers; they are found when a model is loaded.
#pragma once

#include "core/result.h"
#include "core/tensor.h"

namespace eadem::weights {

// An error that names the first block of a block-quantised tensor whose half-precision scale or minimum is infinite or
// NaN. Plain types have no scales and pass.
Result<void> check_finite_scales(const TensorView& tensor);

}  // namespace eadem::weights
