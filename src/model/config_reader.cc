#include "model/config_reader.h"

#include <algorithm>

#include "numerics/double_math.h"
#include "numerics/version.h"

namespace eadem::model {
namespace {

// Sizes past these are no model that this engine could run; products of them stay far from overflow.
constexpr int64_t kMaxSize = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxLayers = 1024;

Result<int> size_field(const ConfigReader& reader, std::string_view hf, std::string_view gguf, int64_t most) {
  EADEM_ASSIGN_OR_RETURN(const int64_t value, reader.integer(hf, gguf));
  if (value < 1 || value > most) {
    return reader.error(std::string(reader.is_gguf() ? gguf : hf) + " is " + std::to_string(value) +
                        "; it must lie in 1 ... " + std::to_string(most));
  }
  return static_cast<int>(value);
}

// GGUF keeps the vocabulary's size in its embedding's shape, or in the token list.
Result<int64_t> read_vocab(const ConfigReader& reader) {
  if (!reader.is_gguf()) {
    EADEM_ASSIGN_OR_RETURN(const int vocab, size_field(reader, "vocab_size", "", kMaxVocab));
    return int64_t{vocab};
  }
  const TensorView* table = reader.checkpoint().find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2)
    return reader.error("it has no tensor 'token_embd.weight' of two dimensions");
  if (table->rows() < 1 || table->rows() > kMaxVocab) return reader.error("'token_embd.weight' has too many rows");
  return table->rows();
}

// transformers 5 writes rope_parameters, earlier versions rope_theta and rope_scaling.
std::string rope_group(const ConfigReader& reader) {
  return reader.checkpoint().metadata().has_group("rope_parameters") ? "rope_parameters." : "rope_scaling.";
}

Result<RopeScaling> read_scaling(const ConfigReader& reader) {
  const std::string group = rope_group(reader);
  if (!reader.is_gguf() && (reader.has("rope_scaling", "") || reader.has("rope_parameters", ""))) {
    return reader.error("rope_scaling must be an object");
  }
  EADEM_ASSIGN_OR_RETURN(std::string kind, reader.text_or(group + "rope_type", "rope.scaling.type", ""));
  if (kind.empty() && !reader.is_gguf()) {
    EADEM_ASSIGN_OR_RETURN(kind, reader.text_or(group + "type", "", ""));
  }
  if (kind.empty() && !reader.is_gguf() && reader.has(group + "factor", "")) {
    return reader.error("rope scaling has a factor but no rope_type");
  }
  // llama.cpp takes a GGUF factor without a type as linear.
  if (kind.empty() && reader.is_gguf() && reader.has("", "rope.scaling.factor")) return RopeScaling::kLinear;
  if (reader.has("", "rope.scale_linear"))
    return reader.error("rope.scale_linear is obsolete: convert the model again");
  if (kind.empty() || kind == "default" || kind == "none") return RopeScaling::kNone;
  if (kind == "linear") return RopeScaling::kLinear;
  if (kind == "llama3") return RopeScaling::kLlama3;
  if (kind == "yarn") return RopeScaling::kYarn;
  return reader.error("rope type '" + kind + "' is not supported (supported: default, linear, llama3, yarn)");
}

Result<void> read_scaling_factors(const ConfigReader& reader, RopeConfig& rope, int64_t context) {
  const std::string group = rope_group(reader);
  EADEM_ASSIGN_OR_RETURN(rope.factor, reader.number_or(group + "factor", "rope.scaling.factor", 1.0));
  EADEM_ASSIGN_OR_RETURN(rope.low_freq_factor, reader.number_or(group + "low_freq_factor", "", 1.0));
  EADEM_ASSIGN_OR_RETURN(rope.high_freq_factor, reader.number_or(group + "high_freq_factor", "", 4.0));
  EADEM_ASSIGN_OR_RETURN(rope.beta_fast, reader.number_or(group + "beta_fast", "rope.scaling.yarn_beta_fast", 32.0));
  EADEM_ASSIGN_OR_RETURN(rope.beta_slow, reader.number_or(group + "beta_slow", "rope.scaling.yarn_beta_slow", 1.0));
  EADEM_ASSIGN_OR_RETURN(rope.original_context, reader.integer_or(group + "original_max_position_embeddings",
                                                                  "rope.scaling.original_context_length", context));
  if (!(rope.factor >= 1.0) || !(rope.factor <= 1e6))
    return reader.error("the rope scaling factor must lie in 1 ... 1000000");
  if (rope.original_context < 1) return reader.error("the rope scaling's original context must be at least 1");
  if (rope.scaling == RopeScaling::kLlama3 &&
      !(rope.high_freq_factor > rope.low_freq_factor && rope.low_freq_factor > 0)) {
    return reader.error("rope scaling needs 0 < low_freq_factor < high_freq_factor");
  }
  if (rope.scaling == RopeScaling::kYarn) {
    const double usual = rope.factor <= 1.0 ? 1.0 : 0.1 * numerics::log_f64(rope.factor) + 1.0;
    EADEM_ASSIGN_OR_RETURN(rope.attention_factor, reader.number_or(group + "attention_factor", "", usual));
    EADEM_ASSIGN_OR_RETURN(const double stretch, reader.number_or("", "rope.scaling.attn_factor", 1.0));
    rope.attention_factor *= stretch;
    if (reader.has(group + "mscale", "") || reader.has(group + "mscale_all_dim", "")) {
      return reader.error("yarn rope with mscale is not supported");
    }
  }
  return {};
}

Result<RopeConfig> read_rope(const ConfigReader& reader, int head_size, int64_t context) {
  RopeConfig rope;
  EADEM_ASSIGN_OR_RETURN(rope.theta, reader.number_or("rope_theta", "rope.freq_base", 10000.0));
  EADEM_ASSIGN_OR_RETURN(rope.theta, reader.number_or("rope_parameters.rope_theta", "rope.freq_base", rope.theta));
  if (!(rope.theta > 1.0) || !(rope.theta < 1e15))
    return reader.error("the rope base (rope_theta) must lie between 1 and 1e15");
  EADEM_ASSIGN_OR_RETURN(const int64_t rotary, reader.integer_or("", "rope.dimension_count", head_size));
  EADEM_ASSIGN_OR_RETURN(const double partial, reader.number_or("partial_rotary_factor", "", 1.0));
  rope.rotary = static_cast<int>(std::min<int64_t>(rotary, head_size));
  if (rope.rotary != head_size || partial != 1.0) return reader.error("partial rotary embeddings are not supported");
  if (rope.rotary % 2 != 0)
    return reader.error("the head size " + std::to_string(head_size) + " is odd: rope needs pairs");
  EADEM_ASSIGN_OR_RETURN(rope.scaling, read_scaling(reader));
  if (rope.scaling != RopeScaling::kNone) EADEM_RETURN_IF_ERROR(read_scaling_factors(reader, rope, context));
  return rope;
}

}  // namespace

ConfigReader::ConfigReader(const weights::Checkpoint& checkpoint)
    : checkpoint_(checkpoint), gguf_(checkpoint.format() == weights::Checkpoint::Format::gguf) {
  if (!gguf_) return;
  const auto architecture = checkpoint.metadata().get<std::string>("general.architecture");
  if (architecture.ok()) prefix_ = architecture.value() + ".";
}

Error ConfigReader::error(const std::string& message) const { return {checkpoint_.metadata().file() + ": " + message}; }

std::string ConfigReader::key(std::string_view hf, std::string_view gguf) const {
  if (!gguf_) return std::string(hf);
  return gguf.empty() ? std::string() : prefix_ + std::string(gguf);
}

bool ConfigReader::has(std::string_view hf, std::string_view gguf) const {
  const std::string name = key(hf, gguf);
  return !name.empty() && checkpoint_.metadata().has(name);
}

Result<std::string> ConfigReader::architecture() const {
  if (gguf_) return checkpoint_.metadata().get<std::string>("general.architecture");
  const weights::StringList* names = checkpoint_.metadata().strings("architectures");
  if (names == nullptr || names->empty())
    return error("'architectures' is missing: this is no causal language model's config");
  return std::string((*names)[0]);
}

Result<int64_t> ConfigReader::integer(std::string_view hf, std::string_view gguf) const {
  return checkpoint_.metadata().get<int64_t>(key(hf, gguf));
}

Result<int64_t> ConfigReader::integer_or(std::string_view hf, std::string_view gguf, int64_t otherwise) const {
  if (!has(hf, gguf)) return otherwise;
  return checkpoint_.metadata().get<int64_t>(key(hf, gguf));
}

Result<double> ConfigReader::number_or(std::string_view hf, std::string_view gguf, double otherwise) const {
  if (!has(hf, gguf)) return otherwise;
  return checkpoint_.metadata().get<double>(key(hf, gguf));
}

Result<bool> ConfigReader::flag_or(std::string_view hf, bool otherwise) const {
  if (!has(hf, "")) return otherwise;
  return checkpoint_.metadata().get<bool>(hf);
}

Result<std::string> ConfigReader::text_or(std::string_view hf, std::string_view gguf, std::string otherwise) const {
  if (!has(hf, gguf)) return otherwise;
  return checkpoint_.metadata().get<std::string>(key(hf, gguf));
}

Result<ModelConfig> read_common_config(const ConfigReader& reader) {
  ModelConfig config;
  EADEM_ASSIGN_OR_RETURN(config.vocab, read_vocab(reader));
  EADEM_ASSIGN_OR_RETURN(config.hidden, size_field(reader, "hidden_size", "embedding_length", kMaxSize));
  EADEM_ASSIGN_OR_RETURN(config.layers, size_field(reader, "num_hidden_layers", "block_count", kMaxLayers));
  EADEM_ASSIGN_OR_RETURN(config.heads, size_field(reader, "num_attention_heads", "attention.head_count", kMaxSize));
  EADEM_ASSIGN_OR_RETURN(config.intermediate, size_field(reader, "intermediate_size", "feed_forward_length", kMaxSize));
  EADEM_ASSIGN_OR_RETURN(const int64_t kv_heads,
                         reader.integer_or("num_key_value_heads", "attention.head_count_kv", config.heads));
  EADEM_ASSIGN_OR_RETURN(const int64_t head_size,
                         reader.integer_or("head_dim", "attention.key_length", config.hidden / config.heads));
  EADEM_ASSIGN_OR_RETURN(const int64_t value_size, reader.integer_or("", "attention.value_length", head_size));
  if (kv_heads < 1 || config.heads % kv_heads != 0 || config.heads / kv_heads > 32) {
    return reader.error(std::to_string(config.heads) + " heads cannot be shared by " + std::to_string(kv_heads) +
                        " key/value heads (groups of 1 to 32 heads are supported)");
  }
  if (head_size < 2 || head_size > numerics::kMaxHead || value_size != head_size) {
    return reader.error("head size " + std::to_string(head_size) + " is not supported (2 to " +
                        std::to_string(numerics::kMaxHead) + ", equal for keys and values)");
  }
  config.kv_heads = static_cast<int>(kv_heads);
  config.head_size = static_cast<int>(head_size);
  EADEM_ASSIGN_OR_RETURN(const double eps, reader.number_or("rms_norm_eps", "attention.layer_norm_rms_epsilon", 1e-6));
  if (!(eps >= 0.0) || !(eps < 1.0)) return reader.error("the norm's epsilon must lie in [0, 1)");
  config.norm_eps = static_cast<float>(eps);
  EADEM_ASSIGN_OR_RETURN(config.context, reader.integer_or("max_position_embeddings", "context_length", 2048));
  if (config.context < 1 || config.context > (int64_t{1} << 31))
    return reader.error("the context length is out of range");
  EADEM_ASSIGN_OR_RETURN(const std::string activation, reader.text_or("hidden_act", "", "silu"));
  if (activation != "silu") return reader.error("activation '" + activation + "' is not supported (supported: silu)");
  EADEM_ASSIGN_OR_RETURN(config.rope, read_rope(reader, config.head_size, config.context));
  return config;
}

}  // namespace eadem::model
