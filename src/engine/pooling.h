// Embeddings: the hidden states of a sequence's rows, added up as they are computed (arithmetic: numerics/pooling.h).
#pragma once

#include <vector>

#include "engine/scheduler.h"
#include "model/model.h"

namespace eadem::engine {

// Adds the rows of a piece that its sequence wants and that were not added before a preemption, up to the first bad
// one. Called after the forward that computed them; does nothing for a sequence that is not pooled.
void pool_piece(const Piece& piece, const model::Batch& batch, const model::Model& model);
// float32 [hidden] of length 1, once all rows were added; empty for a sequence that is not pooled.
std::vector<float> embedding_of(const Sequence& sequence);

}  // namespace eadem::engine
