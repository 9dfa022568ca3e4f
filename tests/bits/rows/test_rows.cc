// Every kernel set's row functions give the reference's bytes, at lengths around every vector width, on values of every
// size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "bits/attention/flush_to_zero.h"
#include "bits/attention/harness.h"
#include "bits/rows/values.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "kernels/kernel_set.h"
#include "numerics/layer.h"
#include "numerics/operand.h"

namespace eadem::test {
namespace {

using kernels::LogSum;
using kernels::QkvShape;

const int kLengths[] = {1,   3,   4,   7,   8,   15,  16,  17,   31,   48,   64,
                        100, 255, 256, 257, 300, 512, 576, 1000, 1536, 2049, 4096};

struct Operands {
  std::vector<uint16_t> y;
  bool good;
  bool operator==(const Operands&) const = default;
};

int padded(int n) { return numerics::padded_to_leaf(n); }

Operands rms_norm(const KernelSet& set, const std::vector<float>& x, const std::vector<float>& weight, float eps) {
  const int n = static_cast<int>(x.size());
  Operands out{std::vector<uint16_t>(static_cast<size_t>(padded(n)), 0xffff), false};
  out.good = set.rms_norm(x.data(), weight.data(), n, padded(n), eps, out.y.data());
  return out;
}

Operands swiglu(const KernelSet& set, const std::vector<float>& gate_up) {
  const int n = static_cast<int>(gate_up.size() / 2);
  Operands out{std::vector<uint16_t>(static_cast<size_t>(padded(n)), 0xffff), false};
  out.good = set.swiglu(gate_up.data(), n, padded(n), out.y.data());
  return out;
}

TEST(Rows, RmsNorm) {
  for (const KernelSet* set : sets()) {
    const uint64_t before = set->calls->load();
    for (int n : kLengths) {
      for (Values values : kAllValues) {
        const auto x = draw(n, values, static_cast<uint64_t>(n)), weight = draw(n, Values::kOrdinary, 2);
        for (float eps : {1e-5f, 0.0f}) {
          EXPECT_EQ(rms_norm(*set, x, weight, eps), rms_norm(reference(), x, weight, eps)) << set->name << " " << n;
        }
      }
    }
    EXPECT_GT(set->calls->load(), before) << set->name;
  }
}

// A sum in another order is another number: the lengths above can tell.
TEST(Rows, RmsNormNegativeControl) {
  int differ = 0;
  for (int n : {576, 1000, 1536, 4096}) {
    auto x = draw(n, Values::kOrdinary, 5);
    float sum = 0;
    for (float element : x) sum = numerics::fma_f32(element, element, sum);
    differ += sum != numerics::vector_sum_of_squares(x.data(), n);
  }
  EXPECT_GT(differ, 0);
  const auto weight = draw(576, Values::kOrdinary, 2);
  auto x = draw(576, Values::kOrdinary, 6);
  const auto want = rms_norm(reference(), x, weight, 1e-5f);
  x[575] *= 1.01f;
  for (const KernelSet* set : sets()) EXPECT_NE(rms_norm(*set, x, weight, 1e-5f), want) << set->name;
}

TEST(Rows, RmsNormAgainstDouble) {
  const auto x = draw(1000, Values::kOrdinary, 7), weight = draw(1000, Values::kOrdinary, 8);
  double sum = 0;
  for (float element : x) sum += static_cast<double>(element) * element;
  const double r = 1 / std::sqrt(sum / 1000 + 1e-5);
  for (const KernelSet* set : sets()) {
    const auto got = rms_norm(*set, x, weight, 1e-5f);
    for (size_t i = 0; i < 1000; ++i) {
      const double want = static_cast<double>(x[i]) * r * static_cast<double>(weight[i]);
      EXPECT_NEAR(static_cast<double>(numerics::operand_value(got.y[i])), want, std::fabs(want) * 0x1.02p-8)
          << set->name;
    }
  }
}

TEST(Rows, ANaNFlagsTheRowAndBecomesZero) {
  const float nan = std::nanf("");
  for (const KernelSet* set : sets()) {
    for (int n : {1, 5, 16, 33, 576}) {
      for (int at : {0, n / 2, n - 1}) {
        auto x = draw(2 * n, Values::kOrdinary, 3);
        EXPECT_TRUE(swiglu(*set, x).good) << set->name;
        x[static_cast<size_t>(n + at)] = nan;
        const auto got = swiglu(*set, x);
        EXPECT_FALSE(got.good) << set->name;
        EXPECT_EQ(got.y[static_cast<size_t>(at)], 0) << set->name;
        EXPECT_EQ(got, swiglu(reference(), x)) << set->name;
        x.resize(static_cast<size_t>(n));
        x[static_cast<size_t>(at)] = nan;
        EXPECT_FALSE(rms_norm(*set, x, x, 1e-5f).good) << set->name;
      }
    }
    // 0 * infinity, infinity / infinity: a NaN that arises inside.
    EXPECT_FALSE(rms_norm(*set, {0.0f, 1.0f, INFINITY}, {1.0f, 1.0f, 1.0f}, 1e-5f).good) << set->name;
    EXPECT_FALSE(swiglu(*set, {-INFINITY, 1.0f}).good) << set->name;
    EXPECT_TRUE(swiglu(*set, {INFINITY, 1.0f}).good) << set->name;
  }
}

TEST(Rows, SwiGlu) {
  for (const KernelSet* set : sets()) {
    for (int n : kLengths) {
      for (Values values : kAllValues) {
        auto x = draw(2 * n, values, static_cast<uint64_t>(n) + 1);
        if (values == Values::kOrdinary) {
          for (float& element : x) element *= 30.0f;  // from saturated to linear
        }
        EXPECT_EQ(swiglu(*set, x), swiglu(reference(), x)) << set->name << " " << n;
      }
    }
  }
}

struct Qkv {
  std::vector<uint16_t> q, k, v;
  bool good;
  bool operator==(const Qkv&) const = default;
};

Qkv split_qkv(const KernelSet& set, const QkvShape& shape, std::vector<float> qkv) {
  const auto angles = draw(shape.rotary + 2, Values::kOrdinary, 9);
  std::vector<float> cosine, sine;
  for (int i = 0; i < shape.rotary / 2; ++i) {
    cosine.push_back(std::cos(angles[static_cast<size_t>(i)] * 3));
    sine.push_back(std::sin(angles[static_cast<size_t>(i)] * 3));
  }
  const size_t kv = static_cast<size_t>(shape.kv_heads * shape.head_size);
  Qkv out{std::vector<uint16_t>(static_cast<size_t>(shape.heads * shape.head_padded), 0xffff),
          std::vector<uint16_t>(kv + 1, 0xabcd), std::vector<uint16_t>(kv + 1, 0xabcd), false};
  out.good = set.split_qkv(shape, qkv.data(), cosine.data(), sine.data(), out.q.data(), out.k.data(), out.v.data());
  EXPECT_EQ(out.k.back(), 0xabcd) << set.name;
  EXPECT_EQ(out.v.back(), 0xabcd) << set.name;
  return out;
}

TEST(Rows, SplitQkv) {
  for (const KernelSet* set : sets()) {
    for (int head_size : {8, 20, 40, 64, 72, 80, 96, 128, 256}) {
      for (int rotary : {0, head_size / 4 * 2, head_size}) {
        for (bool normed : {false, true}) {
          for (Values values : kAllValues) {
            QkvShape shape;
            shape.heads = 6, shape.kv_heads = 2, shape.head_size = head_size, shape.head_padded = padded(head_size);
            shape.rotary = rotary, shape.eps = 1e-6f;
            const auto q_norm = draw(head_size, Values::kOrdinary, 13), k_norm = draw(head_size, Values::kOrdinary, 14);
            if (normed) shape.q_norm = q_norm.data(), shape.k_norm = k_norm.data();
            auto qkv = draw(10 * head_size, values, static_cast<uint64_t>(head_size));
            EXPECT_EQ(split_qkv(*set, shape, qkv), split_qkv(reference(), shape, qkv)) << set->name << " " << head_size;
            for (int at : {0, 6 * head_size, 10 * head_size - 1}) {
              auto broken = qkv;
              broken[static_cast<size_t>(at)] = std::nanf("");
              const auto got = split_qkv(*set, shape, broken);
              EXPECT_FALSE(got.good) << set->name;
              EXPECT_EQ(got, split_qkv(reference(), shape, broken)) << set->name;
            }
          }
        }
      }
    }
  }
}

TEST(Rows, SplitQkvNegativeControl) {
  QkvShape shape;
  shape.heads = 6, shape.kv_heads = 2, shape.head_size = shape.head_padded = shape.rotary = 64;
  auto qkv = draw(640, Values::kOrdinary, 64);
  const auto want = split_qkv(reference(), shape, qkv);
  qkv[1] *= 1.01f;
  for (const KernelSet* set : sets()) EXPECT_FALSE(split_qkv(*set, shape, qkv) == want) << set->name;
}

TEST(Rows, RopeRotatesPairsHalfAHeadApart) {
  for (const KernelSet* set : sets()) {
    QkvShape shape;
    shape.heads = shape.kv_heads = 1, shape.head_size = shape.head_padded = 64, shape.rotary = 64;
    std::vector<float> qkv(192, 0.0f), cosine(32, 0.0f), sine(32, 1.0f);  // a quarter turn
    qkv[3] = 2.0f, qkv[32 + 5] = 3.0f, qkv[64] = 7.0f;
    std::vector<uint16_t> q(64), k(64), v(64);
    ASSERT_TRUE(set->split_qkv(shape, qkv.data(), cosine.data(), sine.data(), q.data(), k.data(), v.data()));
    EXPECT_EQ(q[32 + 3], numerics::bf16_operand(2.0f));
    EXPECT_EQ(q[5], numerics::bf16_operand(-3.0f));
    EXPECT_EQ(k[32], numerics::bf16_operand(7.0f));
  }
}

bool same(LogSum a, LogSum b) {
  return numerics::bits_of(a.max) == numerics::bits_of(b.max) && numerics::bits_of(a.sum) == numerics::bits_of(b.sum);
}

TEST(Rows, LogSum) {
  for (const KernelSet* set : sets()) {
    for (int n : {1, 3, 16, 100, 255, 256, 257, 1000, 5000, 49152, 49153, 151936, 262144}) {
      for (float width : {1.0f, 20.0f, 200.0f}) {
        auto x = draw(n, Values::kOrdinary, static_cast<uint64_t>(n));
        for (float& element : x) element *= width;
        EXPECT_TRUE(same(set->log_sum(x.data(), n), reference().log_sum(x.data(), n))) << set->name << " " << n;
        for (int i = 0; i < n - 1; i += 3) x[static_cast<size_t>(i)] = -INFINITY;  // masked tokens
        EXPECT_TRUE(same(set->log_sum(x.data(), n), reference().log_sum(x.data(), n))) << set->name << " " << n;
        if (n < 1000 || width > 100.0f) continue;
        const LogSum got = set->log_sum(x.data(), n);
        double sum = 0;
        for (float element : x) sum += std::exp(static_cast<double>(element) - static_cast<double>(got.max));
        EXPECT_NEAR(static_cast<double>(got.sum), sum, sum * 1e-5) << set->name;
      }
    }
  }
}

TEST(Rows, LogSumNegativeControl) {
  auto x = draw(5000, Values::kOrdinary, 5);
  const LogSum want = reference().log_sum(x.data(), 5000);
  for (const KernelSet* set : sets()) {
    int differ = 0;
    for (int round = 0; round < 8; ++round) {
      std::rotate(x.begin(), x.begin() + 1, x.end());  // the same numbers, each in its neighbour's lane
      differ += !same(set->log_sum(x.data(), 5000), want);
    }
    EXPECT_GT(differ, 2) << set->name;
  }
}

TEST(Rows, LogSumOfWhatIsNoDistribution) {
  for (const KernelSet* set : sets()) {
    for (int n : {1, 16, 17, 64, 1000}) {
      std::vector<float> x(static_cast<size_t>(n), -INFINITY);
      EXPECT_EQ(set->log_sum(x.data(), n).max, -INFINITY) << set->name;
      EXPECT_TRUE(std::isnan(set->log_sum(x.data(), n).sum)) << set->name;
      for (int at : {0, n / 2, n - 1}) {
        auto y = draw(n, Values::kOrdinary, 3);
        y[static_cast<size_t>(at)] = std::nanf("");
        EXPECT_TRUE(std::isnan(set->log_sum(y.data(), n).max)) << set->name;
        y[static_cast<size_t>(at)] = INFINITY;
        EXPECT_EQ(set->log_sum(y.data(), n).max, INFINITY) << set->name;
      }
      std::vector<float> zeros(static_cast<size_t>(n), -0.0f);
      EXPECT_EQ(numerics::bits_of(set->log_sum(zeros.data(), n).max), 0u) << set->name;
      EXPECT_EQ(set->log_sum(zeros.data(), n).sum, static_cast<float>(n)) << set->name;
    }
  }
}

// What numerics v1 promises about these steps: this digest never changes.
TEST(Rows, GoldenDigest) {
  for (const KernelSet* set : sets()) {
    Sha256 digest;
    const auto add = [&digest](const auto& elements) {
      for (const auto& element : elements) digest.update_value(element);
    };
    for (int n : {20, 576, 1536, 4096}) {
      for (Values values : kAllValues) {
        const auto x = draw(2 * n, values, 101), weight = draw(n, Values::kOrdinary, 102);
        add(rms_norm(*set, {x.begin(), x.begin() + n}, weight, 1e-5f).y);
        add(swiglu(*set, x).y);
        const LogSum sum = set->log_sum(x.data(), n);
        digest.update_value(sum.max);
        digest.update_value(sum.sum);
        std::vector<uint16_t> operands(static_cast<size_t>(padded(n)));
        for (int i = 0; i < n; ++i)
          operands[static_cast<size_t>(i)] = numerics::bf16_operand(x[static_cast<size_t>(i)]);
        std::vector<int8_t> q(operands.size());
        std::vector<float> scale(operands.size() / 32);
        std::vector<int32_t> sums(scale.size());
        set->quantise(operands.data(), padded(n), 32, q.data(), scale.data(), sums.data());
        add(q), add(scale), add(sums);
      }
    }
    QkvShape shape;
    shape.heads = 4, shape.kv_heads = 2, shape.head_size = 72, shape.head_padded = 96, shape.rotary = 40,
    shape.eps = 1e-6f;
    const auto norm = draw(72, Values::kOrdinary, 103), angles = draw(23, Values::kOrdinary, 104);
    shape.q_norm = shape.k_norm = norm.data();
    auto qkv = draw(8 * 72, Values::kOrdinary, 105);
    std::vector<uint16_t> q(4 * 96), k(2 * 72), v(2 * 72);
    EXPECT_TRUE(set->split_qkv(shape, qkv.data(), angles.data(), angles.data() + 3, q.data(), k.data(), v.data()));
    add(q), add(k), add(v);
    EXPECT_EQ(digest.hex(), "05d62da995cb5cc235966b263905a27f72552e87425d0a14a2dd050069276865") << set->name;
  }
}

// Results of attention are operands of o * (1 / l): with l = 1 of any float there is, here of every upper half with the
// lower halves around which rounding turns.
TEST(Rows, OperandsOfEveryUpperHalf) {
  kernels::AttentionShape shape;
  shape.heads = shape.kv_heads = 1, shape.head_size = shape.head_padded = 256;
  for (const KernelSet* set : sets()) {
    const uint64_t before = set->calls->load();
    int truncated = 0;
    for (const uint32_t low : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      for (uint32_t high = 0; high < 65536; high += 256) {
        float m = 0.0f, l = 1.0f, o[256];
        uint16_t got[256], *out = got;
        bool bad = false, nan = false;
        for (uint32_t i = 0; i < 256; ++i) o[i] = numerics::float_of((high + i) << 16 | low);
        set->attention_finish(shape, 1, {&m, &l, o, &bad}, &out);
        for (uint32_t i = 0; i < 256; ++i) {
          nan |= numerics::is_nan(o[i]);
          truncated += numerics::bf16_operand(o[i]) == (high + i) ? 0 : 1;
          ASSERT_EQ(got[i], numerics::bf16_operand(o[i])) << set->name << " " << std::hex << (high + i) << " " << low;
        }
        ASSERT_EQ(bad, nan) << set->name;
      }
    }
    EXPECT_EQ(set->calls->load() - before, 6u * 256u);
    EXPECT_GT(truncated, 65536) << "the control: operands are more than a float's upper half";
  }
}

TEST(Rows, ACallersFlushToZeroDoesNotMatter) {
  for (const KernelSet* set : sets()) {
    const auto x = draw(600, Values::kTiny, 4);
    std::vector<float> weight(600, 0x1p60f);
    const auto want = rms_norm(reference(), x, weight, 0.0f);
    std::vector<float> logits(1000, -87.33f);  // exp close to 2^-126
    logits[0] = 0.0f;
    const LogSum want_sum = reference().log_sum(logits.data(), 1000);
    ThreadPool pool(2);
    Operands inside[2], direct;
    LogSum sums[2];
    {
      const FlushToZero flush;
      pool.run(2, [&](int index, int) {
        inside[index] = rms_norm(*set, x, weight, 0.0f);
        sums[index] = set->log_sum(logits.data(), 1000);
      });
      direct = rms_norm(*set, x, weight, 0.0f);
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(inside[i], want) << set->name;
      EXPECT_TRUE(same(sums[i], want_sum)) << set->name;
    }
    EXPECT_NE(direct, want) << set->name << ": the control should meet a subnormal outside the pool";
  }
}

}  // namespace
}  // namespace eadem::test
