// What a comparison comes to: an estimate with its interval, and the verdict beside a declared margin.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace eadem::audit::statistics {

inline constexpr double kConfidence = 0.95;

// An estimate and its two-sided interval; `confidence` is what the interval has, which exact methods round up.
struct Estimate {
  double value = 0.0, low = 0.0, high = 0.0;
  double confidence = kConfidence;

  double width() const { return high - low; }
};

enum class Verdict : uint8_t { kHolds, kDiffers, kUndecided };

constexpr const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds: return "holds";
    case Verdict::kDiffers: return "differs";
    case Verdict::kUndecided: return "undecided";
  }
  return "undecided";
}

// Of a signed effect, zero where there is no difference. "holds" where the whole interval lies within [-margin,
// margin]: two one-sided tests at (1 - confidence) / 2 each (D. J. Schuirmann, "A comparison of the two one-sided tests
// procedure and the power approach for assessing the equivalence of average bioavailability", Journal of
// Pharmacokinetics and Biopharmaceutics 15, 1987), so that it is a statement and no absence of evidence. "differs"
// where the interval has no zero and is not within. An interval that is no wider than the margin always decides: it
// cannot hold both zero and the margin.
inline Verdict judge_signed(const Estimate& effect, double margin) {
  if (effect.low >= -margin && effect.high <= margin) return Verdict::kHolds;
  return effect.low > 0.0 || effect.high < 0.0 ? Verdict::kDiffers : Verdict::kUndecided;
}

// Of a distance, never negative: "differs" only where all of the interval lies above the margin.
inline Verdict judge_distance(const Estimate& distance, double margin) {
  if (distance.high <= margin) return Verdict::kHolds;
  return distance.low > margin ? Verdict::kDiffers : Verdict::kUndecided;
}

// Units needed until an interval that has `width` with n of them shrinks to `wanted`, widths going as n^-rate, and a
// tenth more, for the width itself is an estimate. At least n + 1.
inline int64_t needed_units(int64_t n, double width, double wanted, double rate = 0.5) {
  if (!(wanted > 0.0) || !(width >= 0.0)) return n + 1;
  const double needed = 1.1 * static_cast<double>(n) * std::pow(width / wanted, 1.0 / rate);
  if (!(needed < 9e15)) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(n + 1, static_cast<int64_t>(std::ceil(needed)));
}

// The smallest effect that a two-sided test at the interval's level finds with a probability of 0.8, from the
// interval's width (J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd edition, 1988).
inline double detectable_effect(const Estimate& estimate) {
  constexpr double kQuantileOf95 = 1.959964, kQuantileOfPower = 0.841621;
  return 0.5 * estimate.width() * (kQuantileOf95 + kQuantileOfPower) / kQuantileOf95;
}

}  // namespace eadem::audit::statistics
