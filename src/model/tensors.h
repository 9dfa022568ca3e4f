// Gives a checkpoint's tensors their meaning: the weights of a layer by role, in either format's names, their shapes
// checked.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "model/family.h"
#include "ops/linear.h"
#include "weights/checkpoint.h"

namespace eadem::model {

class Tensors {
 public:
  Tensors(const weights::Checkpoint& checkpoint, const Family& family, const ModelConfig& config)
      : checkpoint_(checkpoint), family_(family), config_(config) {}

  // A linear layer's weight [n, k], with its bias where `bias` is set. `role`: "q", "k", "v", "o", "gate", "up", "down"
  // of a layer; "head" (layer -1). q and k rows come in half-split order.
  Result<ops::WeightPart> linear(std::string_view role, int layer, int64_t n, int64_t k, bool bias) const;
  // A vector of n float32: "attention_norm", "mlp_norm", "q_norm", "k_norm" of a layer; "final_norm" (layer -1).
  Result<std::vector<float>> vector(std::string_view role, int layer, int64_t n) const;
  Result<const TensorView*> embedding() const;
  bool has_head() const;
  // GGUF's per-pair rope factors; empty where there are none.
  Result<std::vector<double>> rope_factors() const;

 private:
  std::string name(std::string_view role, int layer, std::string_view suffix) const;
  Result<const TensorView*> find(const std::string& name, const Shape& shape) const;
  std::vector<int32_t> row_order(std::string_view role) const;

  const weights::Checkpoint& checkpoint_;
  const Family& family_;
  const ModelConfig& config_;
};

}  // namespace eadem::model
