// Attention against softmax in float64 on the same operands.
#include <cmath>
#include <cstdio>

#include "bits/attention/harness.h"

namespace eadem::test {
namespace {

double value_of(uint16_t operand) { return static_cast<double>(numerics::operand_value(operand)); }

std::vector<double> softmax_attention(const Sequence& s, int64_t position, int head) {
  const AttentionShape& shape = s.shape;
  const int kv_head = head / shape.group();
  const uint16_t* q = s.query(position) + head * shape.head_padded;
  const int64_t first = shape.window == 0 ? 0 : std::max<int64_t>(0, position - shape.window + 1);
  std::vector<double> scores, out(static_cast<size_t>(shape.head_size));
  for (int64_t j = first; j <= position; ++j) {
    double dot = 0;
    for (int d = 0; d < shape.head_size; ++d) dot += value_of(q[d]) * value_of(s.key(kv_head, j)[d]);
    scores.push_back(dot / std::sqrt(static_cast<double>(shape.head_size)));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (int64_t j = first; j <= position; ++j) {
    const double p = std::exp(scores[static_cast<size_t>(j - first)] - largest);
    total += p;
    for (int d = 0; d < shape.head_size; ++d) out[static_cast<size_t>(d)] += p * value_of(s.value(kv_head, j)[d]);
  }
  for (double& x : out) x /= total;
  return out;
}

// Relative L2 error of the output operands over all rows and heads.
double relative_error(const KernelSet& set, const Sequence& s, const std::vector<int64_t>& positions) {
  const auto rows = attend(set, s, positions);
  const AttentionShape& shape = s.shape;
  double error = 0, norm = 0;
  for (size_t r = 0; r < positions.size(); ++r) {
    const size_t split_words = static_cast<size_t>(2 + shape.head_padded);
    const size_t words =
        static_cast<size_t>(shape.group()) * ((static_cast<size_t>(positions[r]) / 1024 + 1) * split_words) +
        static_cast<size_t>(shape.group()) * (split_words + static_cast<size_t>(shape.head_size));
    for (int head = 0; head < shape.heads; ++head) {
      const size_t in_group = static_cast<size_t>(head % shape.group());
      const size_t end = words * static_cast<size_t>(head / shape.group() + 1);
      const size_t tail =
          (static_cast<size_t>(shape.group()) - in_group - 1) * (split_words + static_cast<size_t>(shape.head_size));
      const uint32_t* out = rows[r].data() + end - tail - static_cast<size_t>(shape.head_size);
      const auto want = softmax_attention(s, positions[r], head);
      for (size_t d = 0; d < want.size(); ++d) {
        const double x = value_of(static_cast<uint16_t>(out[d]));
        error += (x - want[d]) * (x - want[d]);
        norm += want[d] * want[d];
      }
    }
  }
  return std::sqrt(error / norm);
}

TEST(AttentionAccuracy, AgainstFloat64) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : {Numerics::kFma32, Numerics::kMma16}) {
      for (Data data : {Data::kOrdinary, Data::kPeaked}) {
        for (int64_t window : {0, 300}) {
          const Sequence s = make_sequence(make_shape(tree, 2, 3, 64, window), 2600, data, 81);
          const double error = relative_error(*set, s, {20, 50, 500, 1023, 1500, 2599});
          std::printf("%s %s: %.3e\n", std::string(set->name).c_str(), std::string(numerics::short_name(tree)).c_str(),
                      error);
          EXPECT_LT(error, 4e-3);
          EXPECT_GT(error, 1e-4);  // bf16 weights and outputs cannot be closer: the control that something was computed
        }
      }
    }
  }
}

}  // namespace
}  // namespace eadem::test
