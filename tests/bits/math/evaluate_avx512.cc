// The elementary functions with the compiler flags of this set (CMakeLists.txt).
#include "bits/math/evaluate.h"
#include "numerics/double_math.h"
#include "numerics/math.h"
#include "numerics/rng.h"

namespace eadem::test::avx512 {

#include "bits/math/evaluate.inc"

}  // namespace eadem::test::avx512
