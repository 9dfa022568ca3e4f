// What is counted comes out: in Prometheus' text, and in the page's JSON.
#include "server/metrics.h"

#include <gtest/gtest.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/counter_names.h"
#include "server/prometheus_text.h"

namespace eadem::server {
namespace {

bool has(const std::string& text, const std::string& line) { return text.find(line + "\n") != std::string::npos; }

Metrics::Moment moment() {
  Metrics::Moment moment;
  moment.service.counters.preemptions = 3;
  moment.service.counters.prefix_hit_tokens = 64;
  moment.service.running = 2;
  moment.service.kv_blocks = 8;
  moment.service.kv_blocks_used = 2;
  moment.model = "a \"model\"\\";
  moment.state = "ready";
  return moment;
}

TEST(Metrics, CountsWhatHandlersTell) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        metrics.received(10);
        metrics.first_token(0.05);
        metrics.inter_token(0.02);
        metrics.inter_token(0.3, 3);
        metrics.finished(FinishReason::kStop, {.cached_tokens = 1, .completion_tokens = 5}, 0.7);
        metrics.refused(Refusal::kQueueFull);
        metrics.replied(200);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto json = nlohmann::json::parse(metrics.stats_json(moment()));
  EXPECT_EQ(json["prompt_tokens"], 4000);
  EXPECT_EQ(json["generation_tokens"], 400 + 400 + 1200);
  EXPECT_EQ(json["answers"]["stop"], 400);
  EXPECT_EQ(json["refused"]["queue_full"], 400);
  EXPECT_EQ(json["http"]["status"]["200"], 400);
  const auto& inter = json["histograms"]["inter_token"];
  EXPECT_EQ(inter["count"], 1600);
  EXPECT_NEAR(inter["sum"].get<double>(), 400 * 0.02 + 400 * 0.3, 1e-3);
  EXPECT_EQ(inter["counts"].size(), inter["le"].size() + 1);
  const std::string text = metrics.prometheus(moment());
  const std::string labels = R"({model_name="a \"model\"\\",engine="0")";
  EXPECT_TRUE(has(text, "vllm:num_requests_running" + labels + "} 2"));
  EXPECT_TRUE(has(text, "vllm:kv_cache_usage_perc" + labels + "} 0.25"));
  EXPECT_TRUE(has(text, "vllm:num_preemptions_total" + labels + "} 3"));
  EXPECT_TRUE(has(text, "vllm:prefix_cache_hits_total" + labels + "} 64"));
  EXPECT_TRUE(has(text, "vllm:request_success_total" + labels + R"(,finished_reason="stop"} 400)"));
  EXPECT_TRUE(has(text, "vllm:time_to_first_token_seconds_bucket" + labels + R"(,le="0.04"} 0)"));
  EXPECT_TRUE(has(text, "vllm:time_to_first_token_seconds_bucket" + labels + R"(,le="0.06"} 400)"));
  EXPECT_TRUE(has(text, "vllm:time_to_first_token_seconds_bucket" + labels + R"(,le="+Inf"} 400)"));
  EXPECT_TRUE(has(text, R"(eadem_http_replies_total{status="200"} 400)"));
}

TEST(Metrics, EveryCounterOfTheEngineHasAName) {
  EXPECT_EQ(std::size(api::kCounters), sizeof(Counters) / sizeof(uint64_t));
}

TEST(Metrics, HistogramsPutValuesAtTheirUpperEnds) {
  const double bounds[] = {1, 2};
  Histogram histogram(bounds);
  for (const double value : {0.0, 1.0, 1.5, 2.0, 3.0, -1.0}) histogram.add(value);
  EXPECT_EQ(histogram.read().counts, (std::vector<uint64_t>{3, 2, 1}));
}

}  // namespace
}  // namespace eadem::server
