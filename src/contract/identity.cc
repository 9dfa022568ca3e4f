#include "contract/identity.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "contract/build_info.h"
#include "contract/canonical_json.h"
#include "core/check.h"
#include "text/blake3.h"

namespace eadem::contract {
namespace {

using weights::Metadata;

// Every value is hashed with its length before it, so that no two sequences of values look alike.
void add_integer(text::Blake3& hash, uint64_t value) { hash.update(&value, sizeof value); }
void add_text(text::Blake3& hash, std::string_view value) {
  add_integer(hash, value.size());
  hash.update(value);
}

void add_value(text::Blake3& hash, const Metadata::Value& value) {
  add_integer(hash, value.index());
  std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          add_text(hash, v);
        } else if constexpr (std::is_same_v<T, double>) {
          add_integer(hash, std::bit_cast<uint64_t>(v));
        } else if constexpr (std::is_arithmetic_v<T>) {
          add_integer(hash, static_cast<uint64_t>(v));
        } else {
          add_integer(hash, v.size());
          for (size_t i = 0; i < v.size(); ++i) {
            if constexpr (std::is_same_v<T, weights::StringList>) {
              add_text(hash, v[i]);
            } else if constexpr (std::is_same_v<T, std::vector<double>>) {
              add_integer(hash, std::bit_cast<uint64_t>(v[i]));
            } else {
              add_integer(hash, static_cast<uint64_t>(v[i]));
            }
          }
        }
      },
      value);
}

std::string hash_weights(const weights::Checkpoint& checkpoint) {
  std::vector<const TensorView*> tensors;
  for (const TensorView& tensor : checkpoint.tensors()) tensors.push_back(&tensor);
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  text::Blake3 hash;
  for (const TensorView* tensor : tensors) {
    add_text(hash, tensor->name);
    add_text(hash, info(tensor->dtype).name);
    add_integer(hash, tensor->shape.size());
    for (const int64_t size : tensor->shape) add_integer(hash, static_cast<uint64_t>(size));
    hash.update(tensor->data, tensor->bytes);
    checkpoint.release(*tensor);
  }
  return hash.hex_digest();
}

// Values whose key begins with one of `prefixes` (or with none of them, where `inside` is false).
std::string hash_metadata(const Metadata& metadata, const std::vector<std::string_view>& prefixes, bool inside) {
  text::Blake3 hash;
  for (const auto& [key, value] : metadata.values()) {
    const bool found = std::any_of(prefixes.begin(), prefixes.end(), [&](auto p) { return key.starts_with(p); });
    if (found != inside) continue;
    add_text(hash, key);
    add_value(hash, value);
  }
  return hash.hex_digest();
}

std::string hash_text(const std::vector<std::string_view>& texts) {
  text::Blake3 hash;
  for (const std::string_view t : texts) add_text(hash, t);
  return hash.hex_digest();
}

}  // namespace

std::string digest_of_template(std::string_view source) { return hash_text({source}); }

std::string digest_of_weights(const weights::Checkpoint& checkpoint, DigestCache& cache) {
  std::vector<std::filesystem::path> files;
  for (const MappedFile& file : checkpoint.files()) files.push_back(file.path());
  return cache.of("tensors", files, [&] { return hash_weights(checkpoint); });
}

std::string Identity::canonical() const {
  auto text = canonical_json({{"weights", weights},
                              {"config", config},
                              {"tokenizer", tokenizer},
                              {"chat_template", chat_template},
                              {"end_tokens", end_tokens},
                              {"numerics", numerics},
                              {"sampler", sampler},
                              {"text_libraries", text_libraries}});
  EADEM_CHECK(text.ok());  // hexadecimal digits, numbers and plain names
  return std::move(text).value();
}

std::string Identity::digest() const { return canonical_digest(canonical()); }

Identity identity_of(const weights::Checkpoint& checkpoint, std::string_view numerics,
                     const std::vector<int32_t>& end_tokens, DigestCache& cache) {
  const bool gguf = checkpoint.format() == weights::Checkpoint::Format::gguf;
  const weights::TextAssets& assets = checkpoint.text();
  Identity identity;
  identity.weights = digest_of_weights(checkpoint, cache);
  // GGUF: names, authors and licences are under general.*; of those only the architecture reaches the bits.
  identity.config = gguf ? hash_text({hash_metadata(checkpoint.metadata(), {"general.", "tokenizer.", "split."}, false),
                                      hash_metadata(checkpoint.metadata(), {"general.architecture"}, true)})
                         : hash_metadata(checkpoint.metadata(), {"transformers_version", "_name_or_path"}, false);
  identity.tokenizer = gguf
                           ? hash_metadata(checkpoint.metadata(), {"tokenizer.ggml."}, true)
                           : hash_text({assets.tokenizer_json.value_or(""), assets.tokenizer_config_json.value_or("")});
  identity.chat_template = digest_of_template(assets.chat_template.value_or(""));
  for (const int32_t token : end_tokens) {
    identity.end_tokens += (identity.end_tokens.empty() ? "" : ",") + std::to_string(token);
  }
  identity.numerics = numerics;
  identity.sampler = "v" + std::to_string(kSamplerVersion);
  identity.text_libraries = build_info().text_libraries;
  return identity;
}

}  // namespace eadem::contract
