#include "graft/server/metrics/history.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/json.h"
#include "graft/server/metrics/metrics.h"
#include "graft/server/metrics/process_metrics.h"

namespace graft::server {
namespace {

bool wait_until(const std::function<bool()>& holds) {
  for (int i = 0; i < 5000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(MetricHistory, KeepsTheNewestSamplesInOrder) {
  std::atomic<int> num_read = 0;
  const MetricHistory history({.interval_seconds = 0.001, .capacity = 3},
                              [&] { return HistorySample{.at = static_cast<double>(++num_read)}; });
  ASSERT_TRUE(wait_until([&] { return num_read >= 10; }));
  const std::vector<HistorySample> samples = history.samples();
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_GE(samples[0].at, 7);
  EXPECT_EQ(samples[1].at, samples[0].at + 1);
  EXPECT_EQ(samples[2].at, samples[0].at + 2);
}

TEST(MetricHistory, ReadsAtOnceAndStopsWithoutWaitingForTheInterval) {
  const auto start = std::chrono::steady_clock::now();
  {
    const MetricHistory history({.interval_seconds = 60}, [] { return HistorySample{.at = 1.5}; });
    ASSERT_TRUE(wait_until([&] { return !history.samples().empty(); }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(MetricHistory, WritesTotalsOfAllModels) {
  Metrics metrics;
  metrics.first_token("a", 0.0005);
  metrics.first_token("b", 0.03);
  metrics.first_token("b", 5000);
  metrics.prompt("a", 30, 16);
  metrics.prompt("b", 12, 0);
  metrics.output("a", 5);
  metrics.output("b", 2);
  for (const char* model : {"a", "b"})
    metrics.loaded(model, model[0] == 'a' ? 1 : 2);
  engine::EngineStats stats;
  stats.num_running = 3;
  stats.num_waiting = 1;
  stats.num_queried_tokens = 40;
  stats.num_hit_tokens = 16;
  stats.blocks = {.num_blocks = 8, .num_used = 2, .num_cached = 1};
  engine::EngineStats other = stats;
  other.blocks.num_used = 6;
  const MetricTotals totals = metrics.totals(
      {{.model = "a", .serial = 1, .stats = stats}, {.model = "b", .serial = 2, .stats = other}});
  // An unloaded model keeps its counters, without gauges.
  metrics.unloaded("b", 2, "idle", other);
  const MetricTotals later = metrics.totals({{.model = "a", .serial = 1, .stats = stats}});
  EXPECT_EQ(later.num_queried, 80);
  EXPECT_EQ(later.num_running, 3);

  const MetricHistory history({.interval_seconds = 60}, [&] {
    return HistorySample{.at = 1.5, .totals = totals, .resident_bytes = 7};
  });
  ASSERT_TRUE(wait_until([&] { return !history.samples().empty(); }));
  const Json json = Json::parse(history.json());
  EXPECT_EQ(json["interval_seconds"], 60);
  EXPECT_GT(json["now"], 1.7e9);
  EXPECT_EQ(json["first_token_bounds"][0], 0.001);
  const Json& sample = json["samples"][0];
  EXPECT_EQ(sample["at"], 1.5);
  EXPECT_EQ(sample["running"], 6);
  EXPECT_EQ(sample["waiting"], 2);
  EXPECT_EQ(sample["kv_cache_usage"], 0.75);
  EXPECT_EQ(sample["output_tokens"], 7);
  EXPECT_EQ(sample["prompt_tokens"], 42);
  EXPECT_EQ(sample["queried_tokens"], 80);
  EXPECT_EQ(sample["hit_tokens"], 32);
  EXPECT_EQ(sample["resident_bytes"], 7);
  const Json& counts = sample["first_tokens"];
  ASSERT_EQ(counts.size(), json["first_token_bounds"].size() + 1);
  EXPECT_EQ(counts[0], 1);                  // up to 1 ms
  EXPECT_EQ(counts[4], 2);                  // up to 40 ms
  EXPECT_EQ(counts[counts.size() - 2], 2);  // up to 2560 s
  EXPECT_EQ(counts[counts.size() - 1], 3);
}

TEST(ProcessMetrics, ReportsTheResidentMemory) {
  EXPECT_GT(resident_bytes(), 1U << 20U);
  EXPECT_LT(resident_bytes(), std::uint64_t{1} << 42U);
}

}  // namespace
}  // namespace graft::server
