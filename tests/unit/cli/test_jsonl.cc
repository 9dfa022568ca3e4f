// Lines of files: numbers, blanks, a missing last newline, what is kept of an earlier output.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/flags.h"
#include "cli/jsonl.h"

namespace eadem::cli {
namespace {

class Jsonl : public testing::Test {
 protected:
  Jsonl() : path_(testing::TempDir() + "eadem_jsonl_" + std::to_string(::getpid())) {}
  ~Jsonl() override { std::filesystem::remove(path_); }

  void put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string get() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string path_;
};

TEST_F(Jsonl, CountsLinesAndSkipsBlankOnes) {
  put("a\n\n \t\r\nb\nc");
  auto opened = LineReader::open(path_);
  ASSERT_TRUE(opened.ok());
  LineReader reader = std::move(opened).value();
  EXPECT_EQ(reader.size(), 10u);
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "a");
  EXPECT_EQ(reader.line_number(), 1);
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "b");
  EXPECT_EQ(reader.line_number(), 4);
  EXPECT_TRUE(reader.ended_by_newline());
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "c");
  EXPECT_FALSE(reader.ended_by_newline());
  EXPECT_FALSE(reader.next(line));
  EXPECT_EQ(reader.bytes(), 10u);
}

// A writer that waits for the answer to its line: nobody may wait for its next one meanwhile.
TEST(LineReaderOfAPipe, TellsWhetherALineIsThere) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const auto put = [&](const std::string& text) {
    ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  auto opened = LineReader::open("/dev/fd/" + std::to_string(ends[0]));
  ASSERT_TRUE(opened.ok());
  LineReader reader = std::move(opened).value();
  std::string line;
  EXPECT_FALSE(reader.ready());
  put("half");
  EXPECT_FALSE(reader.ready());
  EXPECT_EQ(reader.bytes(), 0u);
  put(" a line\n\n  \nnext");
  EXPECT_TRUE(reader.ready());
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "half a line");
  EXPECT_EQ(reader.bytes(), 12u);
  EXPECT_FALSE(reader.ready()) << "blank lines are none";
  EXPECT_EQ(reader.line_number(), 1);
  ::close(ends[1]);
  EXPECT_TRUE(reader.ready());
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "next");
  EXPECT_EQ(reader.line_number(), 4);
  EXPECT_FALSE(reader.ended_by_newline());
  EXPECT_TRUE(reader.ready());
  EXPECT_FALSE(reader.next(line));
  ::close(ends[0]);
}

TEST_F(Jsonl, ALongLineAcrossManyReads) {
  const std::string text(300000, 'x');
  put(text + "\n" + text + "y");
  LineReader reader = LineReader::open(path_).value();
  std::string line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, text);
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, text + "y");
  EXPECT_FALSE(reader.next(line));
}

TEST_F(Jsonl, KeepsTheBytesItIsToldToAndAppends) {
  put("one\ntorn");
  auto opened = LineWriter::open(path_);
  ASSERT_TRUE(opened.ok());
  LineWriter writer = std::move(opened).value();
  ASSERT_TRUE(writer.keep(4).ok());
  ASSERT_TRUE(writer.write("two\n").ok());
  EXPECT_EQ(get(), "one\ntwo\n");
  const auto second = LineWriter::open(path_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
}

TEST_F(Jsonl, NamesAFileThatIsNotThere) {
  const auto opened = LineReader::open(path_);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find(path_), std::string::npos);
}

TEST(Flags, IntegersAreTakenWholeOrNotAtAll) {
  EXPECT_EQ(parse_integer("12", 0, 12).value(), 12);
  EXPECT_EQ(parse_integer("-3", -3, 0).value(), -3);
  for (const char* wrong : {"", " 1", "1 ", "1.0", "0x1", "13", "-1", "99999999999999999999"}) {
    EXPECT_FALSE(parse_integer(wrong, 0, 12).ok()) << wrong;
  }
  EXPECT_EQ(parse_integers("1, 2 3", 0, 9).value(), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_FALSE(parse_integers("1 x", 0, 9).ok());
  EXPECT_FALSE(parse_integers(" ", 0, 9).ok());
}

}  // namespace
}  // namespace eadem::cli
