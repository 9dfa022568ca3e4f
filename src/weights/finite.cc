#include "weights/finite.h"

#include <string>

#include "numerics/formats.h"
#include "weights/message.h"

namespace eadem::weights {

Result<void> check_finite_scales(const TensorView& tensor) {
  const DTypeInfo type = info(tensor.dtype);
  const numerics::HalfFields fields = numerics::half_fields(tensor.dtype);
  if (fields.count == 0) return {};
  const size_t blocks = tensor.bytes / type.bytes;
  for (size_t block = 0; block < blocks; ++block) {
    for (int f = 0; f < fields.count; ++f) {
      const uint16_t half = numerics::load_u16(tensor.data + block * type.bytes + fields.offset[f]);
      if ((half & 0x7c00) == 0x7c00) {
        return Error{"tensor " + quote(tensor.name) + ": the scale of block " + std::to_string(block) +
                     " is not a finite number: " + std::string(kDamaged)};
      }
    }
  }
  return {};
}

}  // namespace eadem::weights
