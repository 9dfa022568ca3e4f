// The log: lines that are JSON, and troubles of its file that nobody else may feel.
#include "server/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace eadem::server {
namespace {

using nlohmann::json;

class LogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("eadem-log-" + std::to_string(::getpid()));
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::vector<json> lines() const {
    std::ifstream file(path_);
    std::vector<json> out;
    for (std::string line; std::getline(file, line);) out.push_back(json::parse(line));
    return out;
  }
  static RequestRecord record() {
    return {.request_id = "id-1",
            .trace_id = "t",
            .remote = "127.0.0.1:1",
            .method = "POST",
            .path = "/v1/\"x\"\xff\n",
            .status = 200,
            .bytes_in = 3,
            .seconds = 0.25,
            .facts = {.model = "m", .prompt_tokens = 5, .completion_tokens = 0, .seed = 18446744073709551615ULL},
            .body = "secret prompt"};
  }

  std::filesystem::path path_;
};

TEST_F(LogTest, LinesAreJsonAndHoldNoPrompt) {
  {
    const auto log = Log::open({.file = path_}).value();
    log->event(LogLevel::kInfo, "listening", "\"port\":80");
    log->event(LogLevel::kDebug, "not asked for");
    log->request(record());
  }
  const auto all = lines();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["event"], "listening");
  EXPECT_EQ(all[0]["port"], 80);
  EXPECT_EQ(all[1]["request_id"], "id-1");
  EXPECT_EQ(all[1]["path"], "/v1/\"x\"\xef\xbf\xbd\n");
  EXPECT_EQ(all[1]["seed"], 18446744073709551615ULL);
  EXPECT_EQ(all[1]["completion_tokens"], 0);
  EXPECT_EQ(all[1]["seconds"], 0.25);
  EXPECT_FALSE(all[1].contains("body"));
  {
    const auto log = Log::open({.file = path_, .prompts = true}).value();
    log->request(record());
  }
  EXPECT_EQ(lines().back()["body"], "secret prompt");
}

TEST_F(LogTest, LevelsAndSilence) {
  {
    const auto log = Log::open({.file = path_, .level = LogLevel::kWarning}).value();
    log->request(record());
    RequestRecord bad = record();
    bad.status = 503;
    log->request(bad);
  }
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_TRUE(parse_log_level("WARN").ok() && parse_log_level("critical").ok() && !parse_log_level("loud").ok());
  EXPECT_FALSE(Log::open({.file = "/no/such/folder/log"}).ok());
}

TEST_F(LogTest, AFullDiskIsCounted) {
  const auto log = Log::open({.file = "/dev/full"}).value();
  for (int i = 0; i < 10; ++i) log->request(record());
  for (int i = 0; i < 30000 && log->dropped() < 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(log->dropped(), 10u);
}

TEST_F(LogTest, APipeThatNobodyReadsHoldsUpNobody) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const int reader = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  const auto start = std::chrono::steady_clock::now();
  {
    const auto log = Log::open({.file = path_, .queue_bytes = 10000}).value();
    for (int i = 0; i < 2000; ++i) log->request(record());
    EXPECT_GT(log->dropped(), 1000u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "a write that hangs hangs for ever";
  ::close(reader);
}

}  // namespace
}  // namespace eadem::server
