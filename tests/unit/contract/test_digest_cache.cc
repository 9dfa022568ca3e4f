// A digest is kept while the files are the same, and never longer.
#include "contract/digest_cache.h"

#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <thread>

#include "support/model_files.h"

namespace eadem::contract {
namespace {

using std::filesystem::path;

class DigestCacheTest : public ::testing::Test {
 protected:
  DigestCacheTest() {
    test::write_file(a_, "first");
    test::write_file(b_, "second");
  }

  // The digest is the given digit 64 times, unless the cache knows better.
  std::string ask(char digit, DigestCache::Options options = {}) {
    options.folder = cache_;
    options.settle = std::chrono::nanoseconds(0);
    DigestCache cache(options);
    const std::string digest = cache.of("tensors", {a_, b_}, [&] { return std::string(64, digit); });
    counters_ = cache.counters();
    return digest.substr(0, 1);
  }

  path entry() const { return std::filesystem::directory_iterator(cache_)->path(); }

  test::TempDirectory folder_;
  path a_ = folder_.path() / "a", b_ = folder_.path() / "b", cache_ = folder_.path() / "cache" / "digests";
  DigestCache::Counters counters_;
};

TEST_F(DigestCacheTest, WhatWasComputedIsKept) {
  EXPECT_EQ(ask('1'), "1");
  EXPECT_EQ(counters_.stored, 1);
  EXPECT_EQ(ask('2'), "1");
  EXPECT_EQ(counters_.hits, 1);
  EXPECT_EQ(counters_.computed, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache_), {}), 1) << "no half entry is left";
  EXPECT_EQ(ask('3', {.recheck = true}), "3") << "a full check, whatever is kept";
  EXPECT_EQ(ask('4'), "3") << "and it is kept in its place";
}

TEST_F(DigestCacheTest, AnotherFileIsAnotherEntry) {
  EXPECT_EQ(ask('1'), "1");
  DigestCache cache({.folder = cache_, .settle = std::chrono::nanoseconds(0)});
  const auto compute = [] { return std::string(64, '2'); };
  EXPECT_EQ(cache.of("sha256", {a_, b_}, compute)[0], '2') << "another kind of digest";
  EXPECT_EQ(cache.of("tensors", {a_}, compute)[0], '2') << "fewer files";
  EXPECT_EQ(cache.of("tensors", {b_, a_}, compute)[0], '2') << "another order";
  EXPECT_EQ(cache.of("tensors", {a_, b_}, compute)[0], '1') << "the control";
}

TEST_F(DigestCacheTest, AnyChangeOfAFileShows) {
  EXPECT_EQ(ask('1'), "1");
  test::write_file(b_, "another");
  EXPECT_EQ(ask('2'), "2") << "another size";
  struct stat before{};
  ASSERT_EQ(::stat(b_.c_str(), &before), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // a tick of the file system's clock
  test::write_file(b_, "aNother");
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, b_.c_str(), times, 0), 0);
  EXPECT_EQ(ask('3'), "3") << "the same size, inode and time of writing: the time of the inode tells";
  test::write_file(folder_.path() / "c", "Another");
  std::filesystem::rename(folder_.path() / "c", b_);
  EXPECT_EQ(ask('4'), "4") << "another inode";
  EXPECT_EQ(ask('5'), "4") << "the control";
  std::filesystem::remove(b_);
  EXPECT_EQ(ask('6'), "6") << "no file, no entry";
  EXPECT_EQ(counters_.stored, 0);
}

TEST_F(DigestCacheTest, ADamagedEntryIsAsGoodAsNone) {
  EXPECT_EQ(ask('1'), "1");
  std::ifstream in(entry(), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  char computed = '2';
  for (size_t at = 0; at < good.size(); at += 7) {
    for (const std::string& bad : {good.substr(0, at), good.substr(0, at) + char(good[at] ^ 1) + good.substr(at + 1)}) {
      test::write_file(entry(), bad);
      ASSERT_EQ(ask(computed), std::string(1, computed)) << "byte " << at << " of: " << bad;
      ASSERT_EQ(counters_.stored, 1);
      computed = computed == '2' ? '3' : '2';
    }
  }
  test::write_file(entry(), std::string(100000, '['));
  EXPECT_EQ(ask('a'), "a");
  test::write_file(entry(), std::string(2 << 20, ' ') + good);
  EXPECT_EQ(ask('b'), "b") << "too long to be ours";
  EXPECT_EQ(ask('c'), "b") << "the control: mended";
}

TEST_F(DigestCacheTest, AnEntryThatWasEditedToMatchIsStillFoundOut) {
  EXPECT_EQ(ask('1'), "1");
  std::ifstream in(entry(), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.replace(text.find(std::string(64, '1')), 64, std::string(64, '9'));
  test::write_file(entry(), text);
  EXPECT_EQ(ask('2'), "2");
}

TEST_F(DigestCacheTest, FilesThatChangedJustNowAreNotBelieved) {
  DigestCache cache({.folder = cache_, .settle = std::chrono::hours(1)});
  EXPECT_EQ(cache.of("tensors", {a_}, [] { return std::string(64, '1'); })[0], '1');
  EXPECT_EQ(cache.of("tensors", {a_}, [] { return std::string(64, '2'); })[0], '2');
  EXPECT_EQ(cache.counters().stored, 0);
}

TEST_F(DigestCacheTest, AFileThatChangesMeanwhileIsNotKept) {
  DigestCache cache({.folder = cache_, .settle = std::chrono::nanoseconds(0)});
  const auto change = [&] {
    test::write_file(a_, "changed meanwhile");
    return std::string(64, '1');
  };
  EXPECT_EQ(cache.of("tensors", {a_}, change)[0], '1');
  EXPECT_EQ(cache.counters().stored, 0);
}

TEST_F(DigestCacheTest, AFolderThatCannotBeWrittenIsNoFault) {
  test::write_file(folder_.path() / "cache", "a file in the way");
  EXPECT_EQ(ask('1'), "1");
  EXPECT_EQ(ask('2'), "2");
  EXPECT_EQ(counters_.stored, 0);
}

}  // namespace
}  // namespace eadem::contract
