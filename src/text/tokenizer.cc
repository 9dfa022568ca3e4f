#include "text/tokenizer.h"

#include <utility>

#include "core/check.h"
#include "text/c_api.h"

namespace eadem::text {
namespace {

int64_t id_or_none(std::optional<uint32_t> id) { return id ? int64_t{*id} : -1; }
int32_t flag_or_none(std::optional<bool> flag) { return flag ? int32_t{*flag} : -1; }

std::optional<uint32_t> to_id(int64_t id) {
  if (id < 0) return std::nullopt;
  return static_cast<uint32_t>(id);
}

std::vector<EademBytes> to_bytes(const std::vector<std::string>& texts) {
  std::vector<EademBytes> bytes;
  bytes.reserve(texts.size());
  for (const std::string& text : texts) bytes.push_back(text::to_bytes(text));
  return bytes;
}

}  // namespace

Tokenizer::Tokenizer(EademTokenizer* handle) : handle_(handle, [](EademTokenizer* t) { eadem_tokenizer_free(t); }) {}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, std::string_view tokenizer_config) {
  EademTokenizer* handle = nullptr;
  EademBuffer error{};
  if (eadem_tokenizer_new_json(text::to_bytes(tokenizer_json), text::to_bytes(tokenizer_config), &handle, &error)) {
    return Error{take(error)};
  }
  return Tokenizer(handle);
}

Result<Tokenizer> Tokenizer::from_gguf(const GgufVocab& vocab) {
  const std::vector<EademBytes> tokens = to_bytes(vocab.tokens);
  const std::vector<EademBytes> merges = to_bytes(vocab.merges);
  EademGgufVocab raw{};
  raw.model = text::to_bytes(vocab.model);
  raw.pre = text::to_bytes(vocab.pre);
  raw.tokens = tokens.data();
  raw.token_count = tokens.size();
  raw.scores = vocab.scores.data();
  raw.score_count = vocab.scores.size();
  raw.token_types = vocab.token_types.data();
  raw.token_type_count = vocab.token_types.size();
  raw.merges = merges.data();
  raw.merge_count = merges.size();
  raw.bos_id = id_or_none(vocab.bos_id);
  raw.eos_id = id_or_none(vocab.eos_id);
  raw.unknown_id = id_or_none(vocab.unknown_id);
  raw.pad_id = id_or_none(vocab.pad_id);
  raw.add_bos = flag_or_none(vocab.add_bos);
  raw.add_eos = flag_or_none(vocab.add_eos);
  raw.add_space_prefix = flag_or_none(vocab.add_space_prefix);
  EademTokenizer* handle = nullptr;
  EademBuffer error{};
  if (eadem_tokenizer_new_gguf(&raw, &handle, &error)) return Error{take(error)};
  return Tokenizer(handle);
}

Result<std::vector<uint32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  EademIds ids{};
  EademBuffer error{};
  if (eadem_tokenizer_encode(handle_.get(), text::to_bytes(text), options.add_special, options.parse_special, &ids,
                             &error)) {
    return Error{take(error)};
  }
  std::vector<uint32_t> out(ids.data, ids.data + ids.size);
  eadem_ids_free(ids);
  return out;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, DecodeOptions options) const {
  EademBuffer out{}, error{};
  const int failed = eadem_tokenizer_decode(handle_.get(), ids.data(), ids.size(), options.skip_special,
                                            options.continuation, &out, &error);
  EADEM_CHECK(!failed);
  return take(out);
}

size_t Tokenizer::vocab_size() const { return eadem_tokenizer_size(handle_.get()); }

std::string_view Tokenizer::token_text(uint32_t id) const {
  return to_view(eadem_tokenizer_token_text(handle_.get(), id));
}

std::string_view Tokenizer::token_bytes(uint32_t id) const {
  return to_view(eadem_tokenizer_token_bytes(handle_.get(), id));
}

bool Tokenizer::is_special(uint32_t id) const { return eadem_tokenizer_is_special(handle_.get(), id) != 0; }

std::optional<uint32_t> Tokenizer::token_id(std::string_view text) const {
  return to_id(eadem_tokenizer_id(handle_.get(), text::to_bytes(text)));
}

std::optional<uint32_t> Tokenizer::bos_id() const { return to_id(eadem_tokenizer_special_id(handle_.get(), 0)); }
std::optional<uint32_t> Tokenizer::eos_id() const { return to_id(eadem_tokenizer_special_id(handle_.get(), 1)); }
std::optional<uint32_t> Tokenizer::unknown_id() const { return to_id(eadem_tokenizer_special_id(handle_.get(), 2)); }
std::optional<uint32_t> Tokenizer::pad_id() const { return to_id(eadem_tokenizer_special_id(handle_.get(), 3)); }

std::span<const uint32_t> Tokenizer::end_ids() const {
  size_t count = 0;
  const uint32_t* ids = eadem_tokenizer_end_ids(handle_.get(), &count);
  return {ids, count};
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(tokenizer.handle_),
      handle_(eadem_stream_new(tokenizer_.get(), options.skip_special, options.continuation)) {}

void StreamDecoder::Free::operator()(EademStream* stream) const { eadem_stream_free(stream); }

std::string StreamDecoder::push(uint32_t id) {
  EademBuffer out{}, error{};
  const int failed = eadem_stream_push(handle_.get(), id, &out, &error);
  EADEM_CHECK(!failed);
  return take(out);
}

std::string StreamDecoder::finish() {
  EademBuffer out{}, error{};
  const int failed = eadem_stream_finish(handle_.get(), &out, &error);
  EADEM_CHECK(!failed);
  return take(out);
}

Result<std::optional<std::string>> config_token(std::string_view tokenizer_config, std::string_view field) {
  int found = 0;
  EademBuffer out{}, error{};
  if (eadem_config_token(text::to_bytes(tokenizer_config), text::to_bytes(field), &found, &out, &error)) {
    return Error{take(error)};
  }
  std::string token = take(out);
  return found ? std::optional(std::move(token)) : std::nullopt;
}

}  // namespace eadem::text
