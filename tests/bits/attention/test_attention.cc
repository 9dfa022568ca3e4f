// Every kernel set gives the reference's bits, whatever else is in the call, in the cache, or still to come.
#include <cstring>

#include "bits/attention/flush_to_zero.h"
#include "bits/attention/harness.h"
#include "core/sha256.h"
#include "core/thread_pool.h"

namespace eadem::test {
namespace {

const std::vector<int64_t> kPositions = {0,    1,    62,   63,   64,   65,   127,  128,  700, 1000,
                                         1022, 1023, 1024, 1025, 1087, 1088, 2047, 2048, 3000};
constexpr Numerics kTrees[] = {Numerics::kFma32, Numerics::kMma16};

struct Case {
  int kv_heads, group, head_size;
  int64_t window;
  Data data;
};

const Case kCases[] = {
    {1, 1, 8, 0, Data::kOrdinary},  {2, 3, 8, 100, Data::kPeaked},      {1, 4, 20, 0, Data::kPeaked},
    {2, 1, 20, 65, Data::kWide},    {1, 7, 40, 0, Data::kWide},         {1, 3, 40, 1024, Data::kPeaked},
    {1, 3, 64, 0, Data::kOrdinary}, {1, 8, 64, 1, Data::kOrdinary},     {2, 4, 64, 1500, Data::kPeaked},
    {1, 1, 64, 0, Data::kWide},     {1, 4, 72, 64, Data::kPeaked},      {1, 1, 80, 0, Data::kPeaked},
    {1, 3, 96, 63, Data::kWide},    {1, 4, 128, 0, Data::kPeaked},      {1, 7, 128, 129, Data::kOrdinary},
    {1, 1, 256, 0, Data::kPeaked},  {1, 3, 256, 1023, Data::kOrdinary},
};

AttentionShape shape_of(const Case& c, Numerics tree) {
  return make_shape(tree, c.kv_heads, c.group, c.head_size, c.window);
}

TEST(Attention, EverySetEqualsTheReference) {
  for (const KernelSet* set : sets()) {
    const uint64_t before = set->calls->load();
    for (Numerics tree : kTrees) {
      for (const Case& c : kCases) {
        const Sequence s = make_sequence(shape_of(c, tree), 3001, c.data, 11);
        const auto want = attend(reference(), s, kPositions);
        EXPECT_EQ(difference(want, attend(*set, s, kPositions)), "")
            << set->name << " " << numerics::short_name(tree) << " head " << c.head_size << " group " << c.group
            << " window " << c.window;
      }
    }
    EXPECT_GT(set->calls->load(), before) << set->name;
  }
}

// What numerics v1 promises about attention: these digests never change.
TEST(Attention, GoldenDigests) {
  const char* golden[] = {"9be94b2b0446982db8d4570830c66dcf1d0037bd5b1e1ef5918e7536d83b55ef",
                          "6769395f0f5011114b3b33d7b6e788862704cfcdd440d1ccd5fd48dd5c5730bf"};
  for (const KernelSet* set : sets()) {
    for (int tree = 0; tree < 2; ++tree) {
      Sha256 digest;
      for (const Case& c : kCases) {
        if (c.head_size > 96) continue;
        const Sequence s = make_sequence(shape_of(c, kTrees[tree]), 1201, c.data, 91);
        for (const RowBits& row : attend(*set, s, {0, 64, 127, 1023, 1024, 1200})) {
          for (uint32_t word : row) digest.update_value(word);
        }
      }
      EXPECT_EQ(digest.hex(), golden[tree]) << set->name << " " << numerics::full_name(kTrees[tree]);
    }
  }
}

// The same comparison sees a single weight's last bit, another tree, and other borders of blocks.
TEST(Attention, NegativeControls) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      const Case c = {1, 2, 64, 0, Data::kOrdinary};
      Sequence s = make_sequence(shape_of(c, tree), 1200, c.data, 5);
      const std::vector<int64_t> positions = {1100};
      const auto base = attend(*set, s, positions);
      EXPECT_EQ(difference(base, attend(*set, s, positions)), "");

      Sequence other_tree = s;
      other_tree.shape.numerics = tree == Numerics::kFma32 ? Numerics::kMma16 : Numerics::kFma32;
      EXPECT_NE(difference(base, attend(*set, other_tree, positions)), "") << set->name;

      Sequence swapped = s;  // the same keys in another order: equal but for the order of additions
      for (int d = 0; d < 64; ++d) {
        std::swap(swapped.key(0, 10)[d], swapped.key(0, 700)[d]);
        std::swap(swapped.value(0, 10)[d], swapped.value(0, 700)[d]);
      }
      EXPECT_NE(difference(base, attend(*set, swapped, positions)), "") << set->name;

      s.value(0, 1100)[63] ^= 1;
      EXPECT_NE(difference(base, attend(*set, s, positions)), "") << set->name;
    }
  }
}

TEST(Attention, ARowIsTheSameAloneAndInCompany) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      for (const Case& c :
           {Case{1, 3, 64, 0, Data::kPeaked}, Case{1, 4, 40, 100, Data::kPeaked}, Case{2, 1, 80, 1030, Data::kWide}}) {
        const Sequence s = make_sequence(shape_of(c, tree), 2100, c.data, 3);
        const Cache cache(*set, s, s.length, false);
        std::vector<int64_t> positions = {2099, 0,    63, 64,   1023,
                                          1024, 1025, 64, 2047, 2048};  // any order, one of them twice
        for (int64_t i = 900; i < 980; ++i) positions.push_back(i);
        const auto together = attend(*set, s, cache, positions);
        EXPECT_EQ(together[3], together[7]);
        for (size_t r = 0; r < positions.size(); r += positions[r] / 400 == 2 ? 11 : 1) {
          const auto alone = attend(*set, s, cache, {positions[r]});
          EXPECT_EQ(difference(alone, {together[r]}), "") << set->name << " position " << positions[r];
        }
        Random random(17);
        for (int round = 0; round < 3; ++round) {
          std::vector<int64_t> some;
          std::vector<RowBits> want;
          for (size_t r = 0; r < positions.size(); ++r) {
            if (random.below(3) != 0) continue;
            some.push_back(positions[r]);
            want.push_back(together[r]);
          }
          EXPECT_EQ(difference(want, attend(*set, s, cache, some)), "") << set->name;
        }
      }
    }
  }
}

// Sets change how they compute at some numbers of rows: every number, over the end of a split.
TEST(Attention, EveryNumberOfRows) {
  for (const Case& c : {Case{1, 1, 40, 0, Data::kPeaked}, Case{1, 3, 64, 200, Data::kPeaked}}) {
    const Sequence s = make_sequence(shape_of(c, Numerics::kFma32), 1100, c.data, 29);
    std::vector<int64_t> positions;
    for (int64_t i = 1000; i < 1070; ++i) positions.push_back(i);
    const auto want = attend(reference(), s, positions);
    for (const KernelSet* set : sets()) {
      const Cache cache(*set, s, s.length, false);
      for (int rows = 1; rows <= 70; rows += rows < 40 ? 1 : 10) {
        const auto got = attend(*set, s, cache, {positions.begin(), positions.begin() + rows});
        EXPECT_EQ(difference({want.begin(), want.begin() + rows}, got), "") << set->name << " " << rows << " rows";
      }
    }
  }
}

// What a slot holds that a row cannot see (zeros, later keys of the sequence, a last owner's operands) is no input.
TEST(Attention, HiddenSlotsDoNotMatter) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      for (int64_t window : {0, 70}) {
        const Sequence s = make_sequence(make_shape(tree, 1, 3, 40, window), 1300, Data::kPeaked, 21);
        const Cache whole(*set, s, s.length, false);
        for (int64_t i : {0, 5, 63, 64, 100, 1023, 1024, 1030}) {
          const auto want = attend(*set, s, whole, {i});
          EXPECT_EQ(difference(want, attend(*set, s, Cache(*set, s, i + 1, false), {i})), "")
              << set->name << " position " << i;
          EXPECT_EQ(difference(want, attend(*set, s, Cache(*set, s, i + 1, true), {i})), "")
              << set->name << " position " << i;
        }
      }
    }
  }
}

// Chunks: rows computed while the cache grows equal rows computed at the end.
TEST(Attention, ChunkCutsDoNotMatter) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      const Sequence s = make_sequence(make_shape(tree, 1, 2, 64, 0), 1100, Data::kPeaked, 23);
      std::vector<int64_t> all;
      for (int64_t i = 950; i < 1100; ++i) all.push_back(i);
      const auto want = attend(*set, s, all);
      for (size_t chunk : {1u, 7u, 64u}) {
        for (size_t begin = 0; begin < all.size(); begin += 5 * chunk) {  // every fifth chunk
          const size_t end = std::min(begin + chunk, all.size());
          const std::vector<int64_t> rows(all.begin() + static_cast<int64_t>(begin),
                                          all.begin() + static_cast<int64_t>(end));
          const Cache cache(*set, s, rows.back() + 1, true);
          const std::vector<RowBits> part(want.begin() + static_cast<int64_t>(begin),
                                          want.begin() + static_cast<int64_t>(end));
          EXPECT_EQ(difference(part, attend(*set, s, cache, rows)), "")
              << set->name << " chunk " << chunk << " at " << begin;
        }
      }
    }
  }
}

TEST(Attention, CacheGivesBackWhatWasWritten) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      for (int head_size : {8, 20, 40, 64, 72, 80, 96, 128, 256}) {
        const Sequence s = make_sequence(make_shape(tree, 2, 1, head_size, 0), 200, Data::kWide, 31);
        const Cache cache(*set, s, s.length, true);
        for (int head = 0; head < 2; ++head) {
          for (int64_t j = 0; j < s.length; ++j) {
            std::vector<uint16_t> k(static_cast<size_t>(head_size)), v(k.size());
            set->kv_read(s.shape, cache.view().block(j / 64, head), static_cast<int>(j % 64), k.data(), v.data());
            ASSERT_EQ(std::memcmp(k.data(), s.key(head, j), k.size() * 2), 0) << set->name << " " << head_size;
            ASSERT_EQ(std::memcmp(v.data(), s.value(head, j), v.size() * 2), 0) << set->name << " " << head_size;
          }
        }
      }
    }
  }
}

// Tiny values in the first split, higher scores and no values in the second: the merged output is subnormal.
Sequence tiny_sequence(Numerics tree) {
  Sequence s = make_sequence(make_shape(tree, 1, 2, 64, 0), 1100, Data::kOrdinary, 41);
  s.shape.c = 1.0f;
  for (int64_t j = 0; j < s.length; ++j) {
    for (int d = 0; d < 64; ++d) {
      s.key(0, j)[d] = numerics::bf16_operand(d == 0 ? (j < 1024 ? 0.0f : 90.0f) : 0.0f);
      s.value(0, j)[d] = j < 1024 ? numerics::bf16_operand(static_cast<float>(1 + (j * 7 + d) % 13) * 0x1p-50f) : 0;
    }
    for (int h = 0; h < 2; ++h) s.query(j)[h * 64] = numerics::bf16_operand(1.0f);
  }
  return s;
}

TEST(Attention, ACallersFlushToZeroDoesNotMatter) {
  for (const KernelSet* set : sets()) {
    for (Numerics tree : kTrees) {
      const Sequence s = tiny_sequence(tree);
      const Cache cache(*set, s, s.length, false);
      const auto want = attend(reference(), s, {1099, 1030});
      ThreadPool pool(2);
      std::vector<RowBits> rows[2], direct;
      {
        const FlushToZero flush;
        pool.run(2, [&](int index, int) { rows[index] = attend(*set, s, cache, {1099, 1030}); });
        direct = attend(*set, s, cache, {1099, 1030});
      }
      EXPECT_EQ(difference(want, rows[0]), "") << set->name;
      EXPECT_EQ(difference(want, rows[1]), "") << set->name;
      EXPECT_NE(difference(want, direct), "") << set->name << ": the control should meet a subnormal outside the pool";
    }
  }
}

}  // namespace
}  // namespace eadem::test
