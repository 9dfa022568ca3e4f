#include <gtest/gtest.h>

#include "engine/ngram_drafter.h"

namespace eadem::engine {
namespace {

Sequence sequence_of(std::vector<int32_t> tokens) {
  Sequence sequence;
  sequence.id = 1;
  sequence.tokens = std::move(tokens);
  return sequence;
}

std::vector<int32_t> guesses(NgramDrafter& drafter, const Sequence& sequence, int most) {
  if (drafter.look(sequence).tokens == 0) return {};
  Proposal proposal{&sequence, most, {}};
  drafter.propose({&proposal, 1});
  return proposal.tokens;
}

std::vector<int32_t> guesses_after(std::vector<int32_t> tokens, int most) {
  NgramDrafter drafter;
  return guesses(drafter, sequence_of(std::move(tokens)), most);
}

using Tokens = std::vector<int32_t>;

TEST(NgramDrafter, SaysWhatFollowedBefore) {
  EXPECT_EQ(guesses_after({1, 2, 3, 4, 5, 6, 2, 3}, 3), (Tokens{4, 5, 6}));
  EXPECT_EQ(guesses_after({1, 2, 3, 4, 5, 6, 2, 3}, 1), (Tokens{4}));
}

TEST(NgramDrafter, IsSilentWhereNothingWasSeen) {
  for (const Tokens& tokens : {Tokens{}, Tokens{7}, Tokens{7, 7}, Tokens{1, 2, 3, 4, 3}, Tokens{1, 2, 3}}) {
    EXPECT_EQ(guesses_after(tokens, 4), Tokens{});
  }
}

TEST(NgramDrafter, TakesTheLongestMatchAndTheLatestOfEquals) {
  EXPECT_EQ(guesses_after({9, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2}, 1), (Tokens{50}));
  EXPECT_EQ(guesses_after({9, 1, 2, 50, 8, 1, 2, 60, 7, 1, 2}, 1), (Tokens{60}));
}

TEST(NgramDrafter, GoesOnWithAPeriodBeyondWhatItCopies) {
  EXPECT_EQ(guesses_after({4, 4, 4}, 5), (Tokens{4, 4, 4, 4, 4}));
  EXPECT_EQ(guesses_after({0, 1, 2, 3, 1, 2}, 7), (Tokens{3, 1, 2, 3, 1, 2, 3}));
}

TEST(NgramDrafter, FollowsASequenceThatGrows) {
  NgramDrafter drafter;
  Sequence sequence = sequence_of({});
  const Tokens text = {1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 9, 1, 2};
  for (size_t n = 0; n < text.size(); ++n) {
    sequence.tokens.push_back(text[n]);
    NgramDrafter fresh;
    EXPECT_EQ(guesses(drafter, sequence, 3), guesses(fresh, sequence, 3)) << n;
  }
}

TEST(NgramDrafter, TrustsLongMatchesAndItsOwnExperience) {
  NgramDrafter drafter;
  const Sequence twice = sequence_of({1, 2, 3, 4, 1, 2});
  const Sequence longer = sequence_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8});
  const float begun = drafter.look(twice).reach[0];
  drafter.forget(1);
  EXPECT_GT(drafter.look(longer).reach[0], begun);
  drafter.forget(1);
  for (int i = 0; i < 20; ++i) {
    drafter.look(twice);
    drafter.judge(twice, 4, 0);
  }
  EXPECT_LT(drafter.look(twice).reach[0], 0.2f);
  for (int i = 0; i < 40; ++i) {
    drafter.look(twice);
    drafter.judge(twice, 4, 4);
  }
  EXPECT_GT(drafter.look(twice).reach[0], 0.7f);
}

TEST(NgramDrafter, ReachFallsWithLength) {
  NgramDrafter drafter;
  const Outlook outlook = drafter.look(sequence_of({1, 2, 3, 4, 1, 2}));
  ASSERT_EQ(outlook.tokens, kMostDraft);
  for (size_t i = 1; i < kMostDraft; ++i) EXPECT_LT(outlook.reach[i], outlook.reach[i - 1]);
}

TEST(Confidence, IsTheShareOfRightGuessesAndForgets) {
  Confidence confidence(0.5f, 4.0f);
  EXPECT_EQ(confidence.chance(), 0.5f);
  for (int i = 0; i < 1000; ++i) confidence.add(4, 3);
  EXPECT_NEAR(confidence.chance(), 0.75f, 0.01f);
  for (int i = 0; i < 60; ++i) confidence.add(1, 0);
  EXPECT_LT(confidence.chance(), 0.3f);
}

}  // namespace
}  // namespace eadem::engine
