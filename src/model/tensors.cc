#include "model/tensors.h"

#include <algorithm>
#include <cmath>

#include "numerics/formats.h"
#include "numerics/operand.h"
#include "weights/finite.h"

namespace eadem::model {
namespace {

struct RoleName {
  std::string_view role, hf, gguf;
};

constexpr RoleName kLayerRoles[] = {
    {"attention_norm", "input_layernorm", "attn_norm"},
    {"q", "self_attn.q_proj", "attn_q"},
    {"k", "self_attn.k_proj", "attn_k"},
    {"v", "self_attn.v_proj", "attn_v"},
    {"o", "self_attn.o_proj", "attn_output"},
    {"q_norm", "self_attn.q_norm", "attn_q_norm"},
    {"k_norm", "self_attn.k_norm", "attn_k_norm"},
    {"mlp_norm", "post_attention_layernorm", "ffn_norm"},
    {"gate", "mlp.gate_proj", "ffn_gate"},
    {"up", "mlp.up_proj", "ffn_up"},
    {"down", "mlp.down_proj", "ffn_down"},
};
constexpr RoleName kModelRoles[] = {
    {"embedding", "model.embed_tokens", "token_embd"},
    {"final_norm", "model.norm", "output_norm"},
    {"head", "lm_head", "output"},
};

}  // namespace

std::string Tensors::name(std::string_view role, int layer, std::string_view suffix) const {
  const bool gguf = checkpoint_.format() == weights::Checkpoint::Format::gguf;
  const auto pick = [&](std::span<const RoleName> roles) {
    const auto found = std::find_if(roles.begin(), roles.end(), [&](const RoleName& r) { return r.role == role; });
    EADEM_CHECK(found != roles.end());
    return std::string(gguf ? found->gguf : found->hf);
  };
  if (layer < 0) return pick(kModelRoles) + std::string(suffix);
  const std::string prefix = (gguf ? "blk." : "model.layers.") + std::to_string(layer) + ".";
  return prefix + pick(kLayerRoles) + std::string(suffix);
}

Result<const TensorView*> Tensors::find(const std::string& name, const Shape& shape) const {
  const std::string& file = checkpoint_.metadata().file();
  const TensorView* tensor = checkpoint_.find(name);
  if (tensor == nullptr)
    return Error{file + ": tensor '" + name + "' is missing: the model is incomplete, fetch it again"};
  if (tensor->shape != shape) {
    return Error{file + ": tensor '" + name + "' has shape " + to_string(tensor->shape) +
                 ", but the model's description asks for " + to_string(shape)};
  }
  if (tensor->dtype == DType::kI32 || tensor->dtype == DType::kI64 || tensor->dtype == DType::kU8) {
    return Error{file + ": tensor '" + name + "' holds " + std::string(info(tensor->dtype).name) +
                 ", which is no weight type"};
  }
  EADEM_RETURN_IF_ERROR(weights::check_finite_scales(*tensor));
  return tensor;
}

// GGUF's converter interleaves the halves of each head's rows (2i, 2i + 1 for pairs); row i of the half-split order is
// taken back.
std::vector<int32_t> Tensors::row_order(std::string_view role) const {
  const bool gguf = checkpoint_.format() == weights::Checkpoint::Format::gguf;
  if (!gguf || !family_.gguf_interleaved_rope || (role != "q" && role != "k")) return {};
  const int heads = role == "q" ? config_.heads : config_.kv_heads, size = config_.head_size;
  std::vector<int32_t> order(static_cast<size_t>(heads) * size);
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < size; ++i)
      order[head * size + i] = head * size + (i < size / 2 ? 2 * i : 2 * (i - size / 2) + 1);
  }
  return order;
}

Result<ops::WeightPart> Tensors::linear(std::string_view role, int layer, int64_t n, int64_t k, bool bias) const {
  ops::WeightPart part;
  EADEM_ASSIGN_OR_RETURN(part.weight, find(name(role, layer, ".weight"), {n, k}));
  if (bias) {
    EADEM_ASSIGN_OR_RETURN(part.bias, find(name(role, layer, ".bias"), {n}));
  } else if (checkpoint_.find(name(role, layer, ".bias")) != nullptr) {
    return Error{checkpoint_.metadata().file() + ": tensor '" + name(role, layer, ".bias") +
                 "' is there, but the model's description says that this layer has no bias"};
  }
  part.order = row_order(role);
  return part;
}

Result<std::vector<float>> Tensors::vector(std::string_view role, int layer, int64_t n) const {
  const std::string full = name(role, layer, ".weight");
  EADEM_ASSIGN_OR_RETURN(const TensorView* tensor, find(full, {n}));
  std::vector<float> values(static_cast<size_t>(n));
  numerics::decode_row(tensor->dtype, tensor->data, n, values.data());
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
    return Error{checkpoint_.metadata().file() + ": tensor '" + full +
                 "' holds a value that is not finite: the file is damaged"};
  }
  return values;
}

Result<const TensorView*> Tensors::embedding() const {
  EADEM_ASSIGN_OR_RETURN(const TensorView* table,
                         find(name("embedding", -1, ".weight"), {config_.vocab, config_.hidden}));
  std::vector<float> row(config_.hidden);
  for (int64_t token = 0; token < config_.vocab; ++token) {
    numerics::decode_row(table->dtype, table->row(token), config_.hidden, row.data());
    if (std::any_of(row.begin(), row.end(), [](float x) { return numerics::is_nan(x); })) {
      return Error{checkpoint_.metadata().file() + ": tensor '" + table->name + "': row " + std::to_string(token) +
                   " holds a value that is not a number (NaN): the file is damaged"};
    }
  }
  checkpoint_.release(*table);
  return table;
}

bool Tensors::has_head() const { return checkpoint_.find(name("head", -1, ".weight")) != nullptr; }

Result<std::vector<double>> Tensors::rope_factors() const {
  if (checkpoint_.format() != weights::Checkpoint::Format::gguf || checkpoint_.find("rope_freqs.weight") == nullptr) {
    return std::vector<double>{};
  }
  const int pairs = config_.rope.rotary / 2;
  EADEM_ASSIGN_OR_RETURN(const TensorView* tensor, find("rope_freqs.weight", {pairs}));
  std::vector<float> values(pairs);
  numerics::decode_row(tensor->dtype, tensor->data, pairs, values.data());
  for (const float value : values) {
    if (!(value > 0.0f) || !std::isfinite(value)) {
      return Error{checkpoint_.metadata().file() +
                   ": tensor 'rope_freqs.weight' holds a factor that is not positive and finite"};
    }
  }
  return std::vector<double>(values.begin(), values.end());
}

}  // namespace eadem::model
