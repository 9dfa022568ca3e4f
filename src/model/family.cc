#include "model/family.h"

#include <algorithm>

namespace eadem::model {

Result<const Family*> find_family(const ConfigReader& reader) {
  EADEM_ASSIGN_OR_RETURN(const std::string architecture, reader.architecture());
  std::string supported;
  for (const Family* family : {&kLlama, &kMistral, &kQwen2, &kQwen3}) {
    const auto names = reader.is_gguf() ? family->gguf_architectures : family->hf_architectures;
    if (std::find(names.begin(), names.end(), architecture) != names.end()) return family;
    for (const std::string_view name : names) supported += (supported.empty() ? "" : ", ") + std::string(name);
  }
  return reader.error("architecture '" + architecture + "' is not supported (supported: " + supported + ")");
}

}  // namespace eadem::model
