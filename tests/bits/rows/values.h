// Values of every size, for the tests of row functions.
#pragma once

#include <cstdint>
#include <vector>

#include "bits/attention/harness.h"

namespace eadem::test {

enum class Values { kOrdinary, kWide, kTiny, kHuge };
inline constexpr Values kAllValues[] = {Values::kOrdinary, Values::kWide, Values::kTiny, Values::kHuge};

inline float draw(Random& random, Values values) {
  const float x = random.normal();
  switch (values) {
    case Values::kOrdinary: return x;
    case Values::kWide: return x * random.power_of_two(-40, 40);
    case Values::kTiny:
      return random.below(3) == 0 ? numerics::float_of(static_cast<uint32_t>(random.below(1 << 23)))
                                  : x * random.power_of_two(-126, -60);
    case Values::kHuge: return x * random.power_of_two(40, 125);
  }
  return 0;
}

inline std::vector<float> draw(int n, Values values, uint64_t seed) {
  Random random(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& element : x) element = draw(random, values);
  return x;
}

}  // namespace eadem::test
