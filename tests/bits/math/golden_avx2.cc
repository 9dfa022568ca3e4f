// The digests with the compiler flags of this set (CMakeLists.txt).
#include <cstdint>

#include "bits/math/golden.h"
#include "core/sha256.h"
#include "numerics/double_math.h"
#include "numerics/math.h"
#include "numerics/rng.h"

namespace eadem::test::avx2 {

#include "bits/math/golden.inc"

}  // namespace eadem::test::avx2
