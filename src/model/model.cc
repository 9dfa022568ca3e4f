#include "model/model.h"

#include <algorithm>

#include "core/fp_env.h"
#include "model/family.h"
#include "model/transformer.h"
#include "numerics/formats.h"

namespace eadem::model {

Result<std::unique_ptr<Model>> Model::load(const weights::Checkpoint& checkpoint, const ModelOptions& options) {
  EADEM_CHECK(options.threads >= 1 && options.max_rows >= 1);
  const FpEnvironment environment;  // rope's tables and the model's constants are the contract's too
  ModelOptions effective = options;
  if (effective.kernels == nullptr) effective.kernels = &kernels::best_kernel_set();
  EADEM_CHECK(effective.kernels->supported());
  EADEM_CHECK(!effective.kernels->free_order || effective.numerics != numerics::Numerics::kMma16);
  const ConfigReader reader(checkpoint);
  EADEM_ASSIGN_OR_RETURN(const Family* family, find_family(reader));
  EADEM_ASSIGN_OR_RETURN(ModelConfig config, family->read(reader));
  config.family = family->name;
  return Transformer::load(checkpoint, *family, std::move(config), effective);
}

numerics::Numerics default_numerics(const weights::Checkpoint& checkpoint) {
  // The type of most linear weights decides; embeddings and norms often differ from the rest.
  int64_t stored = 0, other = 0;
  for (const TensorView& tensor : checkpoint.tensors()) {
    if (tensor.shape.size() != 2) continue;
    (numerics::int8_native(tensor.dtype) ? stored : other) += tensor.rows() * tensor.columns();
  }
  return stored > other ? numerics::Numerics::kInt8 : numerics::Numerics::kFma32;
}

}  // namespace eadem::model
