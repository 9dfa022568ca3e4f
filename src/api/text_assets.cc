#include "api/text_assets.h"

#include <algorithm>

namespace eadem::api {
namespace {

using weights::Metadata;

std::vector<std::string> strings(const Metadata& metadata, std::string_view key) {
  std::vector<std::string> values;
  if (const weights::StringList* list = metadata.strings(key)) {
    for (size_t i = 0; i < list->size(); ++i) values.emplace_back((*list)[i]);
  }
  return values;
}

template <class T, class Out>
Result<void> read_optional(const Metadata& metadata, std::string_view key, std::optional<Out>& out) {
  if (!metadata.has(key)) return {};
  EADEM_ASSIGN_OR_RETURN(const T value, metadata.get<T>(key));
  out = static_cast<Out>(value);
  return {};
}

Result<text::GgufVocab> read_vocab(const Metadata& metadata) {
  constexpr std::string_view kPrefix = "tokenizer.ggml.";
  const auto key = [&](std::string_view name) { return std::string(kPrefix) + std::string(name); };
  text::GgufVocab vocab;
  EADEM_ASSIGN_OR_RETURN(vocab.model, metadata.get<std::string>(key("model")));
  EADEM_ASSIGN_OR_RETURN(vocab.pre, metadata.get_or<std::string>(key("pre"), ""));
  vocab.tokens = strings(metadata, key("tokens"));
  vocab.merges = strings(metadata, key("merges"));
  EADEM_ASSIGN_OR_RETURN(const auto scores, metadata.get_or<std::vector<double>>(key("scores"), {}));
  vocab.scores.assign(scores.begin(), scores.end());
  EADEM_ASSIGN_OR_RETURN(const auto types, metadata.get_or<std::vector<int64_t>>(key("token_type"), {}));
  vocab.token_types.assign(types.begin(), types.end());
  EADEM_RETURN_IF_ERROR(read_optional<int64_t>(metadata, key("bos_token_id"), vocab.bos_id));
  EADEM_RETURN_IF_ERROR(read_optional<int64_t>(metadata, key("eos_token_id"), vocab.eos_id));
  EADEM_RETURN_IF_ERROR(read_optional<int64_t>(metadata, key("unknown_token_id"), vocab.unknown_id));
  EADEM_RETURN_IF_ERROR(read_optional<int64_t>(metadata, key("padding_token_id"), vocab.pad_id));
  EADEM_RETURN_IF_ERROR(read_optional<bool>(metadata, key("add_bos_token"), vocab.add_bos));
  EADEM_RETURN_IF_ERROR(read_optional<bool>(metadata, key("add_eos_token"), vocab.add_eos));
  EADEM_RETURN_IF_ERROR(read_optional<bool>(metadata, key("add_space_prefix"), vocab.add_space_prefix));
  return vocab;
}

bool is_gguf(const weights::Checkpoint& checkpoint) { return checkpoint.format() == weights::Checkpoint::Format::gguf; }

// "eos_token_id": 2 or [2, 32000].
Result<void> append_ids(const Metadata& metadata, std::string_view key, std::vector<int32_t>& ids) {
  if (!metadata.has(key)) return {};
  EADEM_ASSIGN_OR_RETURN(const auto values, metadata.get<std::vector<int64_t>>(key));
  for (const int64_t value : values) {
    if (value < 0 || value > INT32_MAX) return Error{metadata.file() + ": " + std::string(key) + " is no token id"};
    ids.push_back(static_cast<int32_t>(value));
  }
  return {};
}

}  // namespace

Result<std::optional<text::Tokenizer>> load_tokenizer(const weights::Checkpoint& checkpoint) {
  if (is_gguf(checkpoint)) {
    if (!checkpoint.metadata().has("tokenizer.ggml.model")) return std::optional<text::Tokenizer>{};
    EADEM_ASSIGN_OR_RETURN(const text::GgufVocab vocab, read_vocab(checkpoint.metadata()));
    auto tokenizer = text::Tokenizer::from_gguf(vocab);
    if (!tokenizer.ok()) return Error{checkpoint.metadata().file() + ": " + tokenizer.error().message};
    return std::optional(std::move(tokenizer).value());
  }
  if (!checkpoint.text().tokenizer_json) return std::optional<text::Tokenizer>{};
  auto tokenizer = text::Tokenizer::from_json(*checkpoint.text().tokenizer_json,
                                              checkpoint.text().tokenizer_config_json.value_or(""));
  if (!tokenizer.ok())
    return Error{"tokenizer.json beside " + checkpoint.metadata().file() + ": " + tokenizer.error().message};
  return std::optional(std::move(tokenizer).value());
}

Result<std::optional<text::ChatTemplate>> load_chat_template(const weights::Checkpoint& checkpoint) {
  if (!checkpoint.text().chat_template) return std::optional<text::ChatTemplate>{};
  auto parsed = text::ChatTemplate::parse(*checkpoint.text().chat_template);
  if (!parsed.ok()) return Error{"chat template of " + checkpoint.metadata().file() + ": " + parsed.error().message};
  return std::optional(std::move(parsed).value());
}

Result<std::vector<int32_t>> load_eos(const weights::Checkpoint& checkpoint,
                                      const std::optional<text::Tokenizer>& tokenizer) {
  std::vector<int32_t> ids;
  if (is_gguf(checkpoint)) {
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
      EADEM_RETURN_IF_ERROR(append_ids(checkpoint.metadata(), key, ids));
    }
  } else {
    EADEM_RETURN_IF_ERROR(append_ids(checkpoint.generation(), "eos_token_id", ids));
    if (ids.empty()) EADEM_RETURN_IF_ERROR(append_ids(checkpoint.metadata(), "eos_token_id", ids));
  }
  if (tokenizer) {
    for (const uint32_t id : tokenizer->end_ids()) ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<SamplingParams> load_default_sampling(const weights::Checkpoint& checkpoint) {
  const Metadata& generation = checkpoint.generation();
  SamplingParams sampling;
  if (generation.empty()) return sampling;
  const auto number = [&](std::string_view key, float& field) -> Result<void> {
    EADEM_ASSIGN_OR_RETURN(const double value, generation.get_or<double>(key, field));
    field = static_cast<float>(value);
    return {};
  };
  EADEM_RETURN_IF_ERROR(number("temperature", sampling.temperature));
  EADEM_RETURN_IF_ERROR(number("top_p", sampling.top_p));
  EADEM_RETURN_IF_ERROR(number("min_p", sampling.min_p));
  EADEM_RETURN_IF_ERROR(number("repetition_penalty", sampling.repetition_penalty));
  EADEM_ASSIGN_OR_RETURN(const int64_t top_k, generation.get_or<int64_t>("top_k", sampling.top_k));
  sampling.top_k = static_cast<int>(std::clamp<int64_t>(top_k, 0, INT32_MAX));
  EADEM_ASSIGN_OR_RETURN(const bool sample, generation.get_or<bool>("do_sample", true));
  if (!sample) sampling.temperature = 0.0f;
  return sampling;
}

}  // namespace eadem::api
