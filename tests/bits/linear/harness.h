// Random linear layers, and their evaluation by any kernel set over any cut of rows and panels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "numerics/int8.h"
#include "numerics/operand.h"
#include "numerics/shards.h"

namespace eadem::kernels::testing {

// Every family makes the order of additions show: ranges are wide, signs mixed.
enum Family { kNormal, kNarrow, kWide, kNearTwo, kCancelling, kMostlyZero, kUniformExponent, kOneLarge, kFamilies };

class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}

  int below(int n) { return static_cast<int>(generator_() % static_cast<uint64_t>(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  float normal() { return normal_(generator_); }
  std::mt19937_64& generator() { return generator_; }

  uint16_t operand(Family family, int k) { return numerics::bf16_operand(value(family, k)); }

 private:
  float value(Family family, int k) {
    const float n = normal();
    switch (family) {
      case kNarrow: return n * std::exp(2 * normal());
      case kWide: return n * std::exp(6 * normal());
      case kNearTwo: return (1.0f + static_cast<float>(120 + below(8)) / 128) * (chance(16) ? -1.0f : 1.0f);
      case kCancelling:
        return previous_ = k % 2 == 0 ? n * std::exp(2 * normal()) : -previous_ * (chance(4) ? 1.0078125f : 1);
      case kMostlyZero: return below(10) < 7 ? 0.0f : n * std::exp(normal());
      case kUniformExponent:
        return std::ldexp(1.0f + static_cast<float>(below(128)) / 128, below(101) - 50) * (chance(2) ? -1.0f : 1.0f);
      case kOneLarge: return k % 16 == 0 && chance(3) ? n * 0x1p12f : n * 0x1p-13f * std::exp(2 * normal());
      default: return n;
    }
  }

  std::mt19937_64 generator_;
  std::normal_distribution<float> normal_;
  float previous_ = 0.0f;
};

// A layer and the rows it reads, before any set packed them.
struct Layer {
  LinearShape shape;
  int rows = 0;
  std::vector<uint16_t> w, x;  // operands
  std::vector<int8_t> wq, xq;  // int8
  std::vector<float> w_scale, w_minimum, x_scale;
  std::vector<int32_t> x_sum;
  std::vector<float> bias;  // empty: none
  bool residual = false;
};

inline void quantise_rows(Layer& layer) {
  const int group = layer.shape.group;
  const size_t groups = layer.x.size() / static_cast<size_t>(group);
  layer.xq.resize(layer.x.size()), layer.x_scale.resize(groups), layer.x_sum.assign(groups, 0);
  for (size_t g = 0; g < groups; ++g) {
    int8_t* q = layer.xq.data() + g * static_cast<size_t>(group);
    layer.x_scale[g] = numerics::int8_quantise(layer.x.data() + g * static_cast<size_t>(group), group, q);
    for (int i = 0; i < group; ++i) layer.x_sum[g] += q[i];
  }
}

// x with the eleven significant bits of a float16, whose range |x| must fit (its magnitude is cut to that).
inline float half_of(float x) {
  const float magnitude = std::min(std::max(std::fabs(x), 0x1p-14f), 0x1p15f);
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);
  return std::copysign(std::ldexp(std::floor(fraction * 2048.0f), exponent - 11), x);
}

inline Layer random_layer(const LinearShape& shape, int rows, Family family, bool bias, bool residual, Draw& draw) {
  Layer layer;
  layer.shape = shape, layer.rows = rows, layer.residual = residual;
  const auto n = static_cast<size_t>(shape.n), k = static_cast<size_t>(shape.k_padded);
  // Both sides cancelling would only make every pair's product positive again.
  const Family weights = family == kCancelling ? kNormal : family;
  layer.w.resize(n * k), layer.x.resize(static_cast<size_t>(rows) * k);
  for (size_t i = 0; i < layer.w.size(); ++i) {
    const int at = static_cast<int>(i % k);
    // Two neighbours share a weight there, so that products cancel, exactly or nearly.
    layer.w[i] = at >= shape.k                          ? uint16_t{0}
                 : family == kCancelling && at % 2 == 1 ? layer.w[i - 1]
                                                        : draw.operand(weights, at);
  }
  for (size_t i = 0; i < layer.x.size(); ++i) {
    const int at = static_cast<int>(i % k);
    layer.x[i] = at >= shape.k ? uint16_t{0} : draw.operand(family, at);
  }
  if (shape.numerics == Numerics::kInt8) {
    quantise_rows(layer);
    layer.wq.resize(n * k), layer.w_scale.resize(n * static_cast<size_t>(shape.groups()));
    const bool nibbles = shape.stored == Int8Weights::kNibbles;
    for (size_t i = 0; i < layer.wq.size(); ++i) {
      const bool padding = static_cast<int>(i % k) >= shape.k;
      const int q = nibbles ? draw.below(16) - (shape.minimum ? 0 : 8) : draw.chance(8) ? -128 : draw.below(256) - 128;
      layer.wq[i] = static_cast<int8_t>(padding ? 0 : q);
    }
    for (float& s : layer.w_scale) s = draw.chance(20) ? 0.0f : draw.normal() * std::exp(2 * draw.normal());
    if (shape.minimum) layer.w_minimum = layer.w_scale;
    for (float& m : layer.w_minimum) m = draw.normal() * std::exp(2 * draw.normal());
    if (shape.stored != Int8Weights::kAny) {  // then scales are halves: some subnormal ones too
      for (std::vector<float>* halves : {&layer.w_scale, &layer.w_minimum}) {
        for (float& x : *halves)
          x = draw.chance(8) ? std::ldexp(static_cast<float>(draw.below(1023)), -24) : half_of(x);
      }
    }
  }
  if (bias) layer.bias.resize(n);
  for (float& b : layer.bias) b = draw.normal();
  return layer;
}

inline std::vector<std::byte> pack(const KernelSet& set, const Layer& layer) {
  const LinearShape& s = layer.shape;
  std::vector<std::byte> packed(set.linear_bytes(s));
  for (int n = 0; n < s.n; ++n) {
    const size_t row = static_cast<size_t>(n) * static_cast<size_t>(s.k_padded);
    const size_t groups = static_cast<size_t>(n) * static_cast<size_t>(s.groups());
    if (s.numerics == Numerics::kInt8) {
      set.pack_int8(s, n, layer.wq.data() + row, layer.w_scale.data() + groups,
                    s.minimum ? layer.w_minimum.data() + groups : nullptr, packed.data());
    } else {
      set.pack_operands(s, n, layer.w.data() + row, packed.data());
    }
  }
  return packed;
}

// Cuts of [0, n) at random places, every piece not empty.
inline std::vector<int> random_cuts(int n, Draw* draw) {
  std::vector<int> cuts{0};
  while (draw != nullptr && cuts.back() < n)
    cuts.push_back(std::min(n, cuts.back() + 1 + draw->below(draw->chance(2) ? 4 : n)));
  if (cuts.back() != n) cuts.push_back(n);
  return cuts;
}

// Columns of y past n. Even, so that rows of an even n begin at even addresses: some kernels want that.
inline constexpr int kPast = 4;

// y [rows][n + kPast]: what a set makes of the layer, over tiles cut by `draw` (null: one tile) and taken in a random
// order. The columns past n, and y's first value under a residual, are the same for all sets.
inline std::vector<float> evaluate(const KernelSet& set, const Layer& layer, Draw* draw) {
  const LinearShape& s = layer.shape;
  const std::vector<std::byte> packed = pack(set, layer);
  std::vector<float> y(static_cast<size_t>(layer.rows) * static_cast<size_t>(s.n + kPast));
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 1009) - 504.25f;
  LinearCall call;
  call.shape = &layer.shape, call.weights = packed.data();
  call.x = {layer.x.data(), layer.xq.data(), layer.x_scale.data(), layer.x_sum.data()};
  call.bias = layer.bias.empty() ? nullptr : layer.bias.data();
  call.y = y.data(), call.y_stride = s.n + kPast, call.add_to_y = layer.residual;

  std::vector<LinearTile> tiles;
  const std::vector<int> panels = random_cuts(s.panels(), draw);
  for (size_t p = 0; p + 1 < panels.size(); ++p) {
    const std::vector<int> rows = random_cuts(layer.rows, draw);
    for (size_t r = 0; r + 1 < rows.size(); ++r) tiles.push_back({panels[p], panels[p + 1], rows[r], rows[r + 1]});
  }
  if (draw != nullptr) std::shuffle(tiles.begin(), tiles.end(), draw->generator());
  const uint64_t before = *set.calls;
  for (const LinearTile& tile : tiles) set.linear(call, tile);
  if (*set.calls != before + tiles.size()) y.clear();  // a set that did not run has proved nothing
  return y;
}

inline bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<const KernelSet*> available_sets() {
  std::vector<const KernelSet*> sets;
  for (const KernelSet* set : all_kernel_sets()) {
    if (set->supported()) sets.push_back(set);
  }
  return sets;
}

inline std::string describe(const Layer& layer, int family) {
  const LinearShape& s = layer.shape;
  return std::string(numerics::short_name(s.numerics)) + " n=" + std::to_string(s.n) + " k=" + std::to_string(s.k) +
         " rows=" + std::to_string(layer.rows) + " shards=" + std::to_string(s.shards) +
         " group=" + std::to_string(s.group) + " stored=" + std::to_string(static_cast<int>(s.stored)) +
         " minimum=" + std::to_string(s.minimum) + " bias=" + std::to_string(!layer.bias.empty()) +
         " residual=" + std::to_string(layer.residual) + " family=" + std::to_string(family);
}

// A shape with k padded as its numerics asks, and the largest legal number of shards up to `shards`.
inline LinearShape make_shape(Numerics numerics, int n, int k, int shards, int group, bool minimum) {
  LinearShape s;
  const bool int8 = numerics == Numerics::kInt8;
  s.numerics = numerics, s.n = n, s.k = k, s.group = int8 ? group : 32, s.minimum = int8 && minimum;
  s.k_padded = static_cast<int>(numerics::round_up(k, s.group));
  s.shards = std::min(shards, numerics::shard_count(s.k_padded, s.group));
  return s;
}

}  // namespace eadem::kernels::testing
