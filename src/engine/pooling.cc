#include "engine/pooling.h"

#include "core/fp_env.h"
#include "numerics/pooling.h"

namespace eadem::engine {

void pool_piece(const Piece& piece, const model::Batch& batch, const model::Model& model) {
  Sequence& sequence = *piece.sequence;
  if (sequence.pooling == Pooling::kNone) return;
  const FpEnvironment environment;
  sequence.pooled.resize(static_cast<size_t>(model.config().hidden));
  for (int row = piece.row_begin; row < piece.row_end; ++row) {
    if (model.bad()[static_cast<size_t>(row)]) return;
    if (batch.rows[static_cast<size_t>(row)].position != sequence.next_logits) continue;
    numerics::pool_row(sequence.pooled.data(), model.hidden(row), model.config().hidden);
    ++sequence.pooled_rows;
    ++sequence.next_logits;
  }
}

std::vector<float> embedding_of(const Sequence& sequence) {
  const FpEnvironment environment;
  std::vector<float> embedding(sequence.pooled.size());
  if (sequence.pooled_rows == 0) return embedding;
  numerics::pool_finish(sequence.pooled.data(), sequence.pooled_rows, static_cast<int>(embedding.size()),
                        embedding.data());
  return embedding;
}

}  // namespace eadem::engine
