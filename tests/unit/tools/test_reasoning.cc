// Thoughts and content of an answer: the same however it is cut.
#include "server/openai/reasoning.h"

#include <gtest/gtest.h>

#include <vector>

namespace eadem::server {
namespace {

ReasoningDelta parse(const std::vector<std::string_view>& pieces, bool opened) {
  ReasoningParser parser(opened);
  ReasoningDelta whole;
  const auto add = [&](const ReasoningDelta& delta) {
    whole.reasoning += delta.reasoning;
    whole.content += delta.content;
  };
  for (const std::string_view piece : pieces) add(parser.feed(piece));
  add(parser.finish());
  return whole;
}

void expect_split(std::string_view answer, bool opened, std::string_view reasoning, std::string_view content) {
  SCOPED_TRACE(answer);
  const auto check = [&](const std::vector<std::string_view>& pieces) {
    const ReasoningDelta got = parse(pieces, opened);
    EXPECT_EQ(got.reasoning, reasoning);
    EXPECT_EQ(got.content, content);
  };
  check({answer});
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < answer.size(); ++i) {
    bytes.push_back(answer.substr(i, 1));
    for (size_t j = i; j <= answer.size(); ++j) check({answer.substr(0, i), answer.substr(i, j - i), answer.substr(j)});
  }
  check(bytes);
}

TEST(Reasoning, EveryCutGivesTheSame) {
  expect_split("<think>\nTwo and two.\n</think>\n\nFour.", false, "Two and two.", "Four.");
  expect_split(" \n<think>a</think>b", false, "a", "b");
  expect_split("Two and\n two.\n</think>\n\nFour. ", true, "Two and\n two.", "Four. ");
  expect_split("<think></think>Four.", false, "", "Four.");
  expect_split("</think>Four.", true, "", "Four.");
  expect_split("a < b </thin > </think></think> c <think>", true, "a < b </thin >", "</think> c <think>");
}

TEST(Reasoning, TextWithoutThoughtsIsContent) {
  expect_split("Four.", false, "", "Four.");
  expect_split("  <thin", false, "", "  <thin");
  expect_split(" Four <think>x</think>", false, "", " Four <think>x</think>");
  expect_split("", false, "", "");
  expect_split(" \n", false, "", " \n");
}

TEST(Reasoning, AnAnswerThatEndsInsideItsThoughtsHasNoContent) {
  expect_split("<think>\nTwo and </thi", false, "Two and </thi", "");
  expect_split("Two and two. \n", true, "Two and two. \n", "");
}

TEST(Reasoning, PromptsAndTemplates) {
  EXPECT_TRUE(prompt_opens_reasoning("<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(prompt_opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(prompt_opens_reasoning("<|im_start|>assistant\n"));
  EXPECT_FALSE(prompt_opens_reasoning("what is <think>?<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_TRUE(template_reasons("{% set parts = content.split('</think>') %}"));
  EXPECT_FALSE(template_reasons("{{ messages }}"));
}

}  // namespace
}  // namespace eadem::server
