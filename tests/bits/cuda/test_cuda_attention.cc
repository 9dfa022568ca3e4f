// Attention on a CUDA device gives the bytes of a CPU set: rows of many sequences in one call, runs of any length, both
// trees, every head size and group, windows, paged blocks, flagged rows and rows that are only padding.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bits/cuda/attention_calls.h"

namespace eadem::test {
namespace {

// Differing rows; the first of them in `where`.
int compare(const Sequence& s, const Call& call, const std::vector<RowOut>& got, std::string& where) {
  const KernelSet& set = kernels::best_kernel_set();
  const Cache cache(set, s, s.length, false);
  std::map<int64_t, RowOut> expected;
  int differing = 0;
  for (const DeviceRun& run : call.runs) {
    for (int r = run.row_begin; r < run.row_end; ++r) {
      const int64_t position = run.first_position + (r - run.row_begin);
      const RowOut& row = got[static_cast<size_t>(r)];
      std::string fault;
      if (position < 0) {
        if (std::any_of(row.out.begin(), row.out.end(), [](uint16_t x) { return x != 0xabcd; }))
          fault = "padding written";
      } else {
        if (!expected.contains(position)) expected[position] = cpu_row(set, s, cache, position);
        const RowOut& want = expected[position];
        if (want.bad != row.bad) fault = want.bad ? "not flagged" : "flagged";
        for (size_t i = 0; fault.empty() && !want.bad && i < want.out.size(); ++i) {
          if (want.out[i] != row.out[i]) {
            char text[96];
            std::snprintf(text, sizeof text, "head %d element %d: %04x, not %04x",
                          static_cast<int>(i) / s.shape.head_size, static_cast<int>(i) % s.shape.head_size, row.out[i],
                          want.out[i]);
            fault = text;
          }
        }
      }
      if (fault.empty()) continue;
      if (differing++ == 0) where = "row " + std::to_string(r) + " at " + std::to_string(position) + ": " + fault;
    }
  }
  return differing;
}

void check(const AttentionShape& shape, Data data, const Call& call, int64_t length) {
  const Sequence s = make_sequence(shape, length, data, 17);
  std::string where;
  const int differing = compare(s, call, device_rows(s, Pool(s), call, length), where);
  EXPECT_EQ(differing, 0) << name_of(shape) << ", data " << static_cast<int>(data) << ": " << differing << " of "
                          << call.rows() << " rows; " << where;
}

class CudaAttention : public testing::TestWithParam<Numerics> {};
INSTANTIATE_TEST_SUITE_P(Trees, CudaAttention, testing::Values(Numerics::kMma16, Numerics::kFma32),
                         [](const auto& tree) { return std::string(numerics::short_name(tree.param)); });

TEST_P(CudaAttention, HeadSizes) {
  for (int size : {8, 33, 64, 80, 96, 128, 160, 192, 256}) {
    for (Data data : {Data::kOrdinary, Data::kPeaked, Data::kWide}) {
      check(make_shape(GetParam(), 2, 4, size, 0), data, single_rows(2200), 2200);
    }
  }
}

TEST_P(CudaAttention, Groups) {
  for (int group : {1, 2, 3, 5, 7, 8, 12, 16, 17, 33}) {
    check(make_shape(GetParam(), 2, group, 64, 0), Data::kPeaked, single_rows(1200), 1200);
    check(make_shape(GetParam(), 1, group, 128, 0), Data::kOrdinary, single_rows(1200), 1200);
  }
}

TEST_P(CudaAttention, Windows) {
  for (int64_t window : {1, 2, 63, 64, 65, 100, 1023, 1024, 1025, 1500, 3000}) {
    check(make_shape(GetParam(), 2, 4, 64, window), Data::kPeaked, single_rows(2600), 2600);
    check(make_shape(GetParam(), 1, 3, 128, window), Data::kPeaked, mixed_runs(), 2200);
  }
}

TEST_P(CudaAttention, Runs) {
  for (int group : {1, 3, 4, 16, 20}) {
    for (int size : {64, 96, 128, 256}) {
      check(make_shape(GetParam(), 2, group, size, 0), Data::kPeaked, mixed_runs(), 2200);
    }
  }
}

TEST_P(CudaAttention, ManyRowsOfManySequences) {
  Call call;
  Random random(4);
  for (int r = 0; r < 700; ++r) call.add(r % kSequences, random.below(1300), 1);
  check(make_shape(GetParam(), 2, 4, 64, 0), Data::kOrdinary, call, 1300);
}

// Long contexts: more splits than the merge keeps in flight.
TEST_P(CudaAttention, ManySplits) {
  Call call;
  for (int64_t position : {9999, 12287, 12288, 4096}) call.add(1, position, 1);
  check(make_shape(GetParam(), 1, 4, 64, 0), Data::kPeaked, call, 12300);
}

TEST_P(CudaAttention, FlaggedRowsAreAlone) {
  const AttentionShape shape = make_shape(GetParam(), 2, 4, 64, 0);
  Sequence s = make_sequence(shape, 1300, Data::kOrdinary, 5);
  // Scores far above the limit for one query; every other row keeps its bits.
  for (int d = 0; d < 64; ++d) s.query(700)[d] = numerics::bf16_operand(0x1p30f);
  Call call;
  for (int64_t position : {699, 700, 701, 1200}) call.add(0, position, 1);
  call.add(1, 695, 12);
  std::string where;
  const auto got = device_rows(s, Pool(s), call, 1300);
  EXPECT_EQ(compare(s, call, got, where), 0) << where;
  EXPECT_TRUE(got[1].bad);
  EXPECT_FALSE(got[0].bad || got[2].bad || got[3].bad);
  EXPECT_TRUE(got[4 + 5].bad);
}

// The comparison tells the trees, and a window, apart.
TEST_P(CudaAttention, NegativeControl) {
  const Numerics other = GetParam() == Numerics::kMma16 ? Numerics::kFma32 : Numerics::kMma16;
  const Call call = single_rows(2200);
  Sequence s = make_sequence(make_shape(GetParam(), 2, 4, 128, 0), 2200, Data::kPeaked, 17);
  std::string where;
  Sequence changed = s;
  changed.shape.numerics = other;
  EXPECT_GT(compare(s, call, device_rows(changed, Pool(s), call, 2200), where), 0);
  changed = s;
  changed.shape.window = 2000;
  EXPECT_GT(compare(s, call, device_rows(changed, Pool(s), call, 2200), where), 0);
}

}  // namespace
}  // namespace eadem::test
