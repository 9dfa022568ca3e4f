#include "model/rope.h"

#include <algorithm>

#include "numerics/double_math.h"

namespace eadem::model {
namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p+2;
// Positions whose angles are kept; rows further back than that have more to do anyway.
constexpr int64_t kKeptPositions = int64_t{1} << 17;

// Llama 3: long wavelengths are slowed by `factor`, short ones kept, those between blended.
double llama3_scaled(double frequency, const RopeConfig& config) {
  const double wavelength = kTwoPi / frequency;
  const double context = static_cast<double>(config.original_context);
  if (wavelength < context / config.high_freq_factor) return frequency;
  if (wavelength > context / config.low_freq_factor) return frequency / config.factor;
  const double smooth =
      (context / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1.0 - smooth) * frequency / config.factor + smooth * frequency;
}

// YaRN (arXiv 2309.00071): pairs that turn often keep their frequency, those that turn rarely are interpolated, a ramp
// between.
double yarn_ramp(int pair, const RopeConfig& config) {
  const auto pair_of_turns = [&](double turns) {
    const double context = static_cast<double>(config.original_context);
    return config.rotary * numerics::log_f64(context / (turns * kTwoPi)) / (2.0 * numerics::log_f64(config.theta));
  };
  const double low = std::max(__builtin_floor(pair_of_turns(config.beta_fast)), 0.0);
  double high = std::min(__builtin_ceil(pair_of_turns(config.beta_slow)), static_cast<double>(config.rotary - 1));
  if (high == low) high += 0.001;
  return std::clamp((pair - low) / (high - low), 0.0, 1.0);
}

}  // namespace

Rope::Rope(const RopeConfig& config) {
  for (int pair = 0; pair < config.rotary / 2; ++pair) {
    double frequency = 1.0 / numerics::pow_f64(config.theta, 2.0 * pair / config.rotary);
    if (!config.frequency_factors.empty()) frequency /= config.frequency_factors[pair];
    if (config.scaling == RopeScaling::kLinear) frequency /= config.factor;
    if (config.scaling == RopeScaling::kLlama3) frequency = llama3_scaled(frequency, config);
    if (config.scaling == RopeScaling::kYarn) {
      const double ramp = yarn_ramp(pair, config);
      frequency = frequency / config.factor * ramp + frequency * (1.0 - ramp);
    }
    frequencies_.push_back(frequency);
  }
  if (config.scaling == RopeScaling::kYarn) magnitude_ = config.attention_factor;
}

void Rope::angles(int64_t position, float* cosine, float* sine) const {
  for (int pair = 0; pair < pairs(); ++pair) {
    const double angle = static_cast<double>(position) * frequencies_[pair];
    cosine[pair] = static_cast<float>(magnitude_ * numerics::cos_f64(angle));
    sine[pair] = static_cast<float>(magnitude_ * numerics::sin_f64(angle));
  }
}

Result<AngleTable> AngleTable::create(const Rope& rope, int64_t context) {
  AngleTable table;
  table.rope_ = &rope;
  table.known_.resize(static_cast<size_t>(std::min(context, kKeptPositions)));
  const size_t row = 2 * static_cast<size_t>(rope.pairs()) * sizeof(float);
  EADEM_ASSIGN_OR_RETURN(table.values_, Buffer::allocate(table.known_.size() * row, "the angles of positions"));
  return table;
}

void AngleTable::angles(int64_t position, float* cosine, float* sine) {
  const auto index = static_cast<size_t>(position);
  if (index >= known_.size()) return rope_->angles(position, cosine, sine);
  const auto pairs = static_cast<size_t>(rope_->pairs());
  float* const kept = values_.as<float>() + 2 * pairs * index;
  if (!known_[index]) {
    rope_->angles(position, kept, kept + pairs);
    known_[index] = true;
  }
  std::copy_n(kept, pairs, cosine);
  std::copy_n(kept + pairs, pairs, sine);
}

}  // namespace eadem::model
