#include "audit/corpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "audit/corpus_manifest.h"
#include "support/model_files.h"

namespace eadem::audit {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class CorpusFolder : public ::testing::Test {
 protected:
  Result<Corpus> add(const std::string& category, std::vector<std::string> lines, Level level = Level::kBits) {
    return add_to_corpus(folder_.string(), {.category = category, .level = level, .lines = std::move(lines)});
  }
  // Two files, frozen.
  void make() {
    ASSERT_TRUE(add("short", {R"({"id": "a", "prompt": "one", "temperature": 0})",
                              R"({"id": "b", "prompt": "two", "temperature": 1, "seed": 3})"})
                    .ok());
    ASSERT_TRUE(add("chat", {R"({"id": "c", "messages": [{"role": "user", "content": "x"}], "temperature": 0})"},
                    Level::kTokens)
                    .ok());
    ASSERT_TRUE(freeze_corpus(folder_.string(), "2026-11-29").ok());
  }
  void expect_error(const std::string& words) {
    const auto corpus = read_corpus(folder_.string());
    ASSERT_FALSE(corpus.ok()) << "wanted: " << words;
    EXPECT_NE(corpus.error().message.find(words), std::string::npos) << corpus.error().message;
    EXPECT_EQ(corpus.error().message.find('\n'), std::string::npos) << corpus.error().message;
  }
  fs::path manifest() const { return folder_ / "manifest.json"; }

  test::TempDirectory scratch_;
  fs::path folder_ = scratch_.path() / "corpus";
};

TEST(DefaultCorpus, IsWhole) {
  const Corpus& corpus = default_corpus();
  EXPECT_EQ(corpus.name, "default");
  EXPECT_FALSE(corpus.frozen.empty()) << "freeze it: `eadem corpus freeze corpus/default`";
  EXPECT_GE(corpus.requests.size(), 60u);
  std::set<std::string> categories;
  for (const CorpusRequest& request : corpus.requests) categories.insert(request.category);
  for (const char* category :
       {"short", "long", "mixed", "turns", "structured", "multilingual", "code", "near-tie", "sampling"}) {
    EXPECT_EQ(categories.count(category), 1u) << category;
  }
}

TEST(DefaultCorpus, IsTheFolder) {
  const auto folder = read_corpus(std::string(EADEM_SOURCE_DIR) + "/corpus/default");
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_EQ(folder.value().digest, default_corpus().digest);
  ASSERT_EQ(folder.value().requests.size(), default_corpus().requests.size());
  for (size_t i = 0; i < folder.value().requests.size(); ++i) {
    EXPECT_EQ(folder.value().requests[i].request, default_corpus().requests[i].request);
  }
}

TEST_F(CorpusFolder, HoldsWhatWasAdded) {
  make();
  const auto corpus = read_corpus(folder_.string());
  ASSERT_TRUE(corpus.ok()) << corpus.error().message;
  ASSERT_EQ(corpus.value().requests.size(), 3u);
  EXPECT_EQ(corpus.value().requests[0].id, "a");
  EXPECT_EQ(corpus.value().requests[0].category, "short");
  EXPECT_EQ(corpus.value().requests[2].level, Level::kTokens);
  EXPECT_TRUE(corpus.value().requests[2].is_chat());
  EXPECT_FALSE(corpus.value().requests[0].request.contains("id"));
  EXPECT_EQ(corpus.value().frozen, "2026-11-29");
  EXPECT_EQ(corpus.value().digest.size(), 64u);
}

TEST_F(CorpusFolder, DigestIsOfWhatDecidesAnswers) {
  make();
  const auto before = read_corpus(folder_.string());
  // The day, the name and the licence do not matter.
  std::string text = replaced(read(manifest()), "2026-11-29", "2026-12-01");
  text = replaced(text, "\"licence\": \"unknown\"", "\"licence\": \"MIT\"");
  write(manifest(), text);
  const auto after = read_corpus(folder_.string());
  ASSERT_TRUE(after.ok()) << after.error().message;
  EXPECT_EQ(after.value().digest, before.value().digest);
  // A level does, and a frozen manifest knows.
  write(manifest(), replaced(text, "\"level\": \"tokens\"", "\"level\": \"bits\""));
  expect_error("the manifest was changed after the freeze");
}

TEST_F(CorpusFolder, ChangedByteIsFound) {
  make();
  write(folder_ / "short.jsonl", replaced(read(folder_ / "short.jsonl"), "one", "onf"));
  expect_error("short.jsonl was changed after the freeze");
}

TEST_F(CorpusFolder, FrozenCannotBeAddedTo) {
  make();
  const std::string before = read(folder_ / "short.jsonl");
  const auto added = add("short", {R"({"id": "d", "prompt": "x", "temperature": 0})"});
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message.find("--thaw"), std::string::npos) << added.error().message;
  EXPECT_EQ(read(folder_ / "short.jsonl"), before);
  EXPECT_FALSE(freeze_corpus(folder_.string(), "2026-11-30").ok());
  ASSERT_TRUE(thaw_corpus(folder_.string()).ok());
  EXPECT_TRUE(add("short", {R"({"id": "d", "prompt": "x", "temperature": 0})"}).ok());
}

TEST_F(CorpusFolder, ThawedAfterAChangeCanBeRead) {
  make();
  write(folder_ / "short.jsonl", replaced(read(folder_ / "short.jsonl"), "one", "onf"));
  ASSERT_TRUE(thaw_corpus(folder_.string()).ok());
  EXPECT_TRUE(read_corpus(folder_.string()).ok());
}

TEST_F(CorpusFolder, BadLinesAreRefusedAndNothingIsWritten) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "x", "temperature": 0})", "field 'id'"},
      {R"({"id": "../a", "prompt": "x", "temperature": 0})", "field 'id'"},
      {R"({"id": "a", "prompt": "x"})", "without a 'seed'"},
      {R"({"id": "a", "prompt": "x", "temperature": 0, "colour": 1})", "unknown field"},
      {R"({"id": "a", "temperature": 0})", "either 'prompt' or 'messages'"},
      {R"({"id": "a", )", "not valid JSON"},
  };
  for (const auto& [line, words] : cases) {
    const auto added = add("short", {line});
    ASSERT_FALSE(added.ok()) << line;
    EXPECT_NE(added.error().message.find(words), std::string::npos) << added.error().message;
    EXPECT_NE(added.error().message.find("short.jsonl, line 1"), std::string::npos) << added.error().message;
    EXPECT_FALSE(fs::exists(folder_ / "short.jsonl"));
    EXPECT_FALSE(fs::exists(manifest()));
  }
}

TEST_F(CorpusFolder, AnIdStandsOnceInTheWholeCorpus) {
  ASSERT_TRUE(add("short", {R"({"id": "a", "prompt": "x", "temperature": 0})"}).ok());
  const auto added = add("code", {R"({"id": "a", "prompt": "y", "temperature": 0})"});
  ASSERT_FALSE(added.ok());
  EXPECT_NE(added.error().message.find("'a' stands there twice"), std::string::npos) << added.error().message;
  EXPECT_FALSE(fs::exists(folder_ / "code.jsonl"));
}

TEST_F(CorpusFolder, MissingAndStrayFilesAreFound) {
  make();
  write(folder_ / "stray.jsonl", "{}\n");
  expect_error("stray.jsonl is not in the manifest");
  fs::remove(folder_ / "stray.jsonl");
  fs::remove(folder_ / "chat.jsonl");
  expect_error("chat.jsonl is missing");
  fs::remove(manifest());
  expect_error("manifest.json is missing");
}

TEST_F(CorpusFolder, LinksAreNotFollowed) {
  make();
  fs::rename(folder_ / "chat.jsonl", folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", folder_ / "chat.jsonl");
  expect_error("is no plain file");
}

TEST_F(CorpusFolder, BadManifestsAreNamed) {
  make();
  const std::string good = read(manifest());
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"name\": \"short.jsonl\"", "\"name\": \"../short.jsonl\"", "files[0]: field 'name'"},
      {"\"name\": \"short.jsonl\"", "\"name\": \"/etc/passwd\"", "files[0]: field 'name'"},
      {"\"name\": \"short.jsonl\"", "\"name\": \"chat.jsonl\"", "stands there twice"},
      {"eadem-corpus-1", "eadem-corpus-2", "field 'format'"},
      {"\"licence\"", "\"license\"", "unknown field 'license'"},
      {"\"category\"", "\"kategory\"", "unknown field 'kategory'"},
      {"\"level\": \"bits\"", "\"level\": \"vibes\"", "field 'level'"},
      {"\"level\": \"bits\"", "\"level\": 3", "field 'level'"},
      {"\"requests\": 2", "\"requests\": -2", "field 'requests'"},
      {"\"requests\": 2", "\"requests\": 3", "the manifest says 3"},
      {"\"frozen\": \"2026-11-29\"", "\"frozen\": \"yesterday\"", "field 'frozen'"},
      {"\"frozen\": \"2026-11-29\"", "\"frozen\": null", "unknown field 'digest'"},
      {"{", "[", "not valid JSON"},
  };
  for (const auto& [from, to, words] : cases) {
    write(manifest(), replaced(good, from, to));
    expect_error(words);
  }
  write(manifest(), std::string(200, '['));
  expect_error("nested deeper");
  write(manifest(), "[]");
  expect_error("must be a JSON object");
  write(manifest(), std::string(size_t{2} << 20, ' '));
  expect_error("larger than 1 MiB");
  write(manifest(), good);
  EXPECT_TRUE(read_corpus(folder_.string()).ok());
}

TEST(CorpusManifest, DaysAndNames) {
  EXPECT_TRUE(is_day("2026-02-28"));
  for (const char* day : {"", "2026-13-01", "2026-00-01", "2026-01-32", "26-01-01", "2026/01/01", "2026-01-0x"}) {
    EXPECT_FALSE(is_day(day)) << day;
  }
  EXPECT_TRUE(is_plain_name("near-tie_1.b"));
  for (const char* name : {"", ".", "..", ".a", "a/b", "a b", "a\\b", "\xc3\xa9"})
    EXPECT_FALSE(is_plain_name(name)) << name;
}

}  // namespace
}  // namespace eadem::audit
