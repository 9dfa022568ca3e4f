// A family of models: how its files call it, and how its description differs from the common one. One file each in
// families/.
#pragma once

#include <span>
#include <string_view>

#include "model/config_reader.h"

namespace eadem::model {

struct Family {
  std::string_view name;
  std::span<const std::string_view> hf_architectures;
  std::span<const std::string_view> gguf_architectures;
  bool gguf_interleaved_rope;  // GGUF stores q and k rows pair by pair; they are put back into half-split order at load
  Result<ModelConfig> (*read)(const ConfigReader& reader);
};

extern const Family kLlama, kMistral, kQwen2, kQwen3;

// The family of a checkpoint; an unknown architecture is an error that names it and lists the supported ones.
Result<const Family*> find_family(const ConfigReader& reader);

}  // namespace eadem::model
