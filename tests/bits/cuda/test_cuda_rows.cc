// The steps between linear layers on a CUDA device give the reference's bytes: every row of a batch, at lengths around
// every vector width, on values of every size, with rows that are NaN among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "bits/attention/harness.h"
#include "bits/cuda/device_memory.h"
#include "kernels/cuda/attention/layout.h"
#include "kernels/cuda/rows/rows.h"
#include "numerics/layer.h"

namespace eadem::test {
namespace {

using kernels::QkvShape;
namespace cuda = kernels::cuda;

constexpr float kNan = __builtin_nanf("");

// Every row has values of another size; every fifth has a NaN.
std::vector<float> make_rows(int rows, int n, uint64_t seed, bool with_nan) {
  Random random(seed);
  std::vector<float> x;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < n; ++i) {
      const float ordinary = random.normal();
      const float scale = row % 4 == 0   ? 1.0f
                          : row % 4 == 1 ? random.power_of_two(-40, 40)
                          : row % 4 == 2 ? random.power_of_two(-126, -60)
                                         : random.power_of_two(40, 125);
      x.push_back(random.below(50) == 0 ? -0.0f : ordinary * scale);
    }
    if (with_nan && row % 5 == 4) x[x.size() - 1 - static_cast<size_t>(random.below(n))] = kNan;
  }
  return x;
}

// std::vector<bool> has no bytes.
using Flags = std::vector<uint8_t>;

struct Outcome {
  std::vector<uint16_t> y;
  Flags bad;
  bool operator==(const Outcome&) const = default;
};

std::string first_difference(const Outcome& a, const Outcome& b, int width) {
  for (size_t i = 0; i < a.y.size(); ++i) {
    if (a.y[i] != b.y[i]) {
      return "row " + std::to_string(i / static_cast<size_t>(width)) + " element " +
             std::to_string(i % static_cast<size_t>(width)) + ": " + std::to_string(a.y[i]) + " " +
             std::to_string(b.y[i]);
    }
  }
  for (size_t r = 0; r < a.bad.size(); ++r) {
    if (a.bad[r] != b.bad[r]) return "flag of row " + std::to_string(r);
  }
  return "";
}

const int kLengths[] = {1, 2, 3, 4, 7, 8, 31, 32, 64, 100, 255, 256, 257, 576, 1000, 1536, 2049, 4096, 5120, 12288};

void check_norm(int rows, int n, float eps) {
  const std::string name = std::to_string(rows) + " rows of " + std::to_string(n);
  const int padded = numerics::padded_to_leaf(n);
  const auto x = make_rows(rows, n, static_cast<uint64_t>(n), true), weight = make_rows(1, n, 2, false);
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(padded);
  Outcome expected{std::vector<uint16_t>(count), Flags(rows)};
  for (int r = 0; r < rows; ++r) {
    expected.bad[r] = !reference().rms_norm(&x[static_cast<size_t>(r * n)], weight.data(), n, padded, eps,
                                            &expected.y[static_cast<size_t>(r * padded)]);
  }
  const DeviceArray<float> dx(x), dw(weight);
  const DeviceArray<uint16_t> y(std::vector<uint16_t>(count, 0xffff));
  const DeviceArray<uint8_t> bad(static_cast<size_t>(rows));
  const auto call = [&](cudaStream_t stream) {
    cuda::rms_norm(stream, dx.data(), dw.data(), rows, n, padded, eps, y.data(), reinterpret_cast<bool*>(bad.data()));
  };
  call(nullptr);
  finish_kernels();
  const Outcome got{y.host(), bad.host()};
  EXPECT_EQ(first_difference(got, expected, padded), "") << name;
  EXPECT_EQ(std::count(got.bad.begin(), got.bad.end(), 1), std::count(expected.bad.begin(), expected.bad.end(), 1));
  if (rows >= 20) {
    EXPECT_GE(std::count(got.bad.begin(), got.bad.end(), 1), 4) << name;
  }

  // The path that was meant: two warps a row, or several blocks a row that each have so many steps of 256 elements.
  const auto launched = launched_by(call);
  ASSERT_EQ(launched.size(), 1u) << name;
  const bool many = rows >= 264 && n % 4 == 0;
  const int steps = rows <= 16 ? 2 : rows <= 32 ? 4 : 8;
  EXPECT_EQ(launched[0].threads, many ? 64u : 256u) << name;
  EXPECT_EQ(launched[0].blocks.x, static_cast<unsigned>(rows)) << name;
  EXPECT_EQ(launched[0].blocks.y, many ? 1u : static_cast<unsigned>((padded + 256 * steps - 1) / (256 * steps)))
      << name;

  // Negative control: another order of the sum is told apart.
  if (n != 4096 || rows < 200) return;
  auto turned_weight = weight;
  std::reverse(turned_weight.begin(), turned_weight.end());
  std::vector<float> turned(static_cast<size_t>(n));
  std::vector<uint16_t> other(static_cast<size_t>(padded));
  int differing = 0;
  for (int r = 0; r < rows; ++r) {
    std::copy_n(&x[static_cast<size_t>(r * n)], n, turned.begin());
    std::reverse(turned.begin(), turned.end());
    reference().rms_norm(turned.data(), turned_weight.data(), n, padded, eps, other.data());
    for (int i = 0; i < n; ++i)
      differing += other[static_cast<size_t>(n - 1 - i)] != got.y[static_cast<size_t>(r * padded + i)];
  }
  EXPECT_GT(differing, 0) << name;
}

TEST(CudaRows, RmsNorm) {
  for (int n : kLengths) {
    for (float eps : {1e-5f, 0.0f}) check_norm(23, n, eps);
  }
  for (int rows : {1, 2, 16, 17, 33, 263, 264, 300}) {
    for (int n : {1000, 4096, 5120, 12288}) check_norm(rows, n, 1e-5f);
  }
}

TEST(CudaRows, SwiGlu) {
  for (int n : kLengths) {
    const int rows = n == 4096 || n == 1000 ? 300 : 23, padded = numerics::padded_to_leaf(n);
    auto x = make_rows(rows, 2 * n, static_cast<uint64_t>(n), true);
    for (size_t i = 0; i < x.size(); i += 3) x[i] = x[i] * 1e-3f;  // gates where the sigmoid is neither 0 nor 1
    const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(padded);
    Outcome expected{std::vector<uint16_t>(count), Flags(rows)};
    for (int r = 0; r < rows; ++r) {
      expected.bad[r] = !reference().swiglu(&x[static_cast<size_t>(2 * r * n)], n, padded,
                                            &expected.y[static_cast<size_t>(r * padded)]);
    }
    const DeviceArray<float> dx(x);
    const DeviceArray<uint16_t> y(std::vector<uint16_t>(count, 0xffff));
    const DeviceArray<uint8_t> bad(static_cast<size_t>(rows));
    cuda::swiglu(nullptr, dx.data(), rows, n, padded, y.data(), reinterpret_cast<bool*>(bad.data()));
    finish_kernels();
    EXPECT_EQ(first_difference({y.host(), bad.host()}, expected, padded), "") << n;
  }
}

void check_embed(int n, int rows) {
  const int vocab = 50;
  Random random(static_cast<uint64_t>(n));
  std::vector<uint16_t> table;
  for (int i = 0; i < vocab * n; ++i) table.push_back(numerics::bf16_operand(random.normal()));
  std::vector<int32_t> tokens = {3, 0, 49, 3, -1, 17, 8, 48, 1};
  while (static_cast<int>(tokens.size()) < rows) tokens.push_back(static_cast<int32_t>(random.below(vocab + 1)) - 1);
  const DeviceArray<uint16_t> dtable(table), gathered(std::vector<uint16_t>(static_cast<size_t>(rows * n), 0xffff));
  const DeviceArray<int32_t> dtokens(tokens);
  const DeviceArray<float> h(std::vector<float>(static_cast<size_t>(rows * n), 7.0f));
  const auto call = [&](cudaStream_t stream) {
    cuda::embed(stream, dtable.data(), dtokens.data(), nullptr, rows, n, h.data());
    cuda::gather(stream, dtable.data(), dtokens.data(), rows, n, gathered.data());
  };
  call(nullptr);
  finish_kernels();
  const auto launched = launched_by(call);
  ASSERT_EQ(launched.size(), 2u);
  const int vector = n % 8 == 0 ? 1024 : 256, together = vector == 1024 && rows >= 264 ? 4 : 1;
  EXPECT_EQ(launched[0].blocks.y, static_cast<unsigned>((n + vector * together - 1) / (vector * together))) << n;
  const auto floats = h.host();
  const auto operands = gathered.host();
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < n; ++i) {
      const size_t at = static_cast<size_t>(r * n + i);
      const bool padding = tokens[static_cast<size_t>(r)] < 0;
      const uint16_t operand = padding ? 0xffff : table[static_cast<size_t>(tokens[static_cast<size_t>(r)] * n + i)];
      ASSERT_EQ(operands[at], operand) << n << " " << r << " " << i;
      ASSERT_EQ(floats[at], padding ? 7.0f : numerics::operand_value(operand)) << n << " " << r << " " << i;
    }
  }
}

TEST(CudaRows, EmbedAndGather) {
  for (int n : {1, 7, 64, 576, 2048, 4100}) {
    for (int rows : {9, 300}) check_embed(n, rows);
  }
  check_embed(4096, 264);
  check_embed(5000, 265);
}

// A row may take the token that the step before drew; where that drew none, it is left alone.
TEST(CudaRows, EmbedTakesTokensThatWereDrawn) {
  for (int n : {7, 576}) {
    const int vocab = 50, rows = 6;
    Random random(static_cast<uint64_t>(n));
    std::vector<uint16_t> table;
    for (int i = 0; i < vocab * n; ++i) table.push_back(numerics::bf16_operand(random.normal()));
    std::vector<kernels::DeviceDrawn> drawn(4);
    drawn[0].token = 49, drawn[1].token = 0, drawn[2].token = -1, drawn[3].token = 23;
    const std::vector<int32_t> tokens = {kernels::token_of_draw(3), 5,
                                         kernels::token_of_draw(0), -1,
                                         kernels::token_of_draw(2), kernels::token_of_draw(1)};
    const std::vector<int32_t> expected = {23, 5, 49, -1, -1, 0};
    const DeviceArray<uint16_t> dtable(table);
    const DeviceArray<int32_t> dtokens(tokens);
    const DeviceArray<kernels::DeviceDrawn> ddrawn(drawn);
    const DeviceArray<float> h(std::vector<float>(static_cast<size_t>(rows * n), 7.0f));
    cuda::embed(nullptr, dtable.data(), dtokens.data(), ddrawn.data(), rows, n, h.data());
    finish_kernels();
    const auto floats = h.host();
    for (int r = 0; r < rows; ++r) {
      const int32_t token = expected[static_cast<size_t>(r)];
      for (int i = 0; i < n; ++i) {
        const float value = token < 0 ? 7.0f : numerics::operand_value(table[static_cast<size_t>(token * n + i)]);
        ASSERT_EQ(floats[static_cast<size_t>(r * n + i)], value) << n << " " << r << " " << i;
      }
    }
  }
}

struct QkvCase {
  int heads, kv_heads, head_size, rotary;
  bool norms;
  int rows = 21;
};

std::string describe(const QkvCase& c) {
  return std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + " heads of " + std::to_string(c.head_size) +
         ", rotary " + std::to_string(c.rotary) + ", " + std::to_string(c.rows) + " rows";
}

// Three sequences of `each` blocks, and an entry that is none.
std::vector<int32_t> scattered_tables(int each) {
  const int stride = each + 1;
  std::vector<int32_t> tables;
  for (int i = 0; i < 3 * stride; ++i) {
    tables.push_back(i % stride == each ? -1 : (i / stride * each + i % stride) * 7 % (3 * each));
  }
  return tables;
}

// The path that was meant: many rows of these heads are warps of several heads, all others are rows of blocks.
void check_path(const QkvCase& c, const std::vector<Launched>& launched, const std::string& name) {
  ASSERT_EQ(launched.size(), 1u) << name;
  const bool many = c.rows >= 264 && c.rotary == c.head_size && (c.head_size == 64 || c.head_size % 128 == 0);
  const int together = many ? 1024 / c.head_size : 1;
  const int warps = (c.heads + together - 1) / together + 2 * ((c.kv_heads + together - 1) / together);
  EXPECT_EQ(launched[0].blocks.x, static_cast<unsigned>(many ? (c.rows * warps + 3) / 4 : c.rows)) << name;
  EXPECT_EQ(launched[0].blocks.y, many ? 1u : static_cast<unsigned>((c.heads + 2 * c.kv_heads + 3) / 4)) << name;
}

void check_qkv(const QkvCase& c) {
  const std::string name = describe(c);
  const int rows = c.rows, padded = numerics::padded_to_leaf(c.head_size),
            width = (c.heads + 2 * c.kv_heads) * c.head_size;
  const auto x = make_rows(rows, width, 5, true);
  const auto q_norm = make_rows(1, c.head_size, 6, false), k_norm = make_rows(1, c.head_size, 7, false);
  Random random(8);
  std::vector<float> cosine, sine;
  for (int i = 0; i < rows * c.rotary / 2; ++i)
    cosine.push_back(random.uniform(-1, 1)), sine.push_back(random.uniform(-1, 1));
  // Rows of three sequences, whose blocks lie scattered; one row is padding.
  const int each = (50 + rows - 1) / 64 + 1, stride = each + 1;
  std::vector<int64_t> positions;
  std::vector<int32_t> sequences;
  for (int r = 0; r < rows; ++r) positions.push_back(r == 11 ? -1 : 50 + r), sequences.push_back(r % 3);
  const std::vector<int32_t> tables = scattered_tables(each);
  const AttentionShape attention = make_shape(Numerics::kMma16, c.kv_heads, c.heads / c.kv_heads, c.head_size, 0);
  const size_t head_bytes = cuda::kv_bytes(attention), block_bytes = head_bytes * static_cast<size_t>(c.kv_heads);

  QkvShape shape{c.heads, c.kv_heads, c.head_size, padded, c.rotary, nullptr, nullptr, 1e-6f};
  if (c.norms) shape.q_norm = q_norm.data(), shape.k_norm = k_norm.data();
  std::vector<uint16_t> expected_q(static_cast<size_t>(rows * c.heads * padded), 0xffff);
  std::vector<std::byte> expected_kv(static_cast<size_t>(3 * each) * block_bytes);
  Flags expected_bad(rows);
  for (int r = 0; r < rows; ++r) {
    if (positions[static_cast<size_t>(r)] < 0) continue;
    std::vector<float> row(x.begin() + r * width, x.begin() + (r + 1) * width);
    std::vector<uint16_t> k(static_cast<size_t>(c.kv_heads * c.head_size)), v(k.size());
    expected_bad[static_cast<size_t>(r)] =
        !reference().split_qkv(shape, row.data(), cosine.data() + r * c.rotary / 2, sine.data() + r * c.rotary / 2,
                               expected_q.data() + r * c.heads * padded, k.data(), v.data());
    const int64_t position = positions[static_cast<size_t>(r)];
    const int32_t block = tables[static_cast<size_t>(sequences[static_cast<size_t>(r)] * stride + position / 64)];
    for (int h = 0; h < c.kv_heads; ++h) {
      cuda::kv_write(
          attention,
          expected_kv.data() + static_cast<size_t>(block) * block_bytes + static_cast<size_t>(h) * head_bytes,
          static_cast<int>(position % 64), k.data() + h * c.head_size, v.data() + h * c.head_size);
    }
  }

  const DeviceArray<float> dx(x), dcosine(cosine), dsine(sine), dq_norm(q_norm), dk_norm(k_norm);
  const DeviceArray<int64_t> dpositions(positions);
  const DeviceArray<int32_t> dsequences(sequences), dtables(tables);
  const DeviceArray<uint16_t> q(std::vector<uint16_t>(expected_q.size(), 0xffff));
  const DeviceArray<uint8_t> bad(static_cast<size_t>(rows)), kv(expected_kv.size());
  kernels::DeviceQkvCall call;
  call.qkv = dx.data(), call.cosine = dcosine.data(), call.sine = dsine.data();
  call.positions = dpositions.data(), call.sequences = dsequences.data();
  call.kv = {reinterpret_cast<std::byte*>(kv.data()), dtables.data(), stride, block_bytes, head_bytes};
  call.q = q.data(), call.bad = reinterpret_cast<bool*>(bad.data());
  if (c.norms) shape.q_norm = dq_norm.data(), shape.k_norm = dk_norm.data();
  const auto split = [&](cudaStream_t stream) { cuda::split_qkv(stream, shape, attention, call, rows); };
  split(nullptr);
  finish_kernels();
  EXPECT_EQ(first_difference({q.host(), bad.host()}, {expected_q, expected_bad}, c.heads * padded), "") << name;
  const auto got = kv.host();
  EXPECT_EQ(std::memcmp(got.data(), expected_kv.data(), got.size()), 0) << name;
  EXPECT_GE(std::count(expected_bad.begin(), expected_bad.end(), 1), 3) << name;

  check_path(c, launched_by(split), name);

  // Negative control: other angles are told apart.
  if (c.rotary == 0) return;
  std::swap(call.cosine, call.sine);
  split(nullptr);
  finish_kernels();
  EXPECT_NE(first_difference({q.host(), bad.host()}, {expected_q, expected_bad}, c.heads * padded), "") << name;
  EXPECT_NE(std::memcmp(kv.host().data(), expected_kv.data(), expected_kv.size()), 0) << name;
}

TEST(CudaRows, SplitQkv) {
  const QkvCase cases[] = {{9, 3, 64, 64, false},
                           {32, 8, 128, 128, false},
                           {8, 8, 96, 96, false},
                           {5, 1, 80, 40, false},
                           {4, 2, 256, 256, false},
                           {4, 4, 8, 8, false},
                           {3, 3, 160, 32, false},
                           {2, 1, 100, 0, false},
                           {7, 7, 33, 2, false},
                           {2, 2, 250, 250, false},
                           // Many rows, of numbers of heads that fill their warps and that do not.
                           {32, 8, 128, 128, false, 300},
                           {20, 10, 128, 128, false, 264},
                           {1, 1, 128, 128, false, 299},
                           {9, 3, 64, 64, false, 270},
                           {32, 16, 64, 64, false, 265},
                           {4, 2, 256, 256, false, 264},
                           {10, 5, 256, 256, false, 267},
                           {5, 1, 80, 40, false, 270},
                           {4, 4, 128, 64, false, 270}};
  for (QkvCase c : cases) {
    for (bool norms : {false, true}) {
      c.norms = norms;
      check_qkv(c);
    }
  }
}

}  // namespace
}  // namespace eadem::test
