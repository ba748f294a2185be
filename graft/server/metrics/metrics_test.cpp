#include "graft/server/metrics/metrics.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/tensor/device.h"

namespace graft::server {
namespace {

TEST(Histogram, CountsUpToEachBound) {
  static constexpr std::array<double, 2> kBounds = {1.0, 2.5};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 2.0, 9.0})
    histogram.observe(value);
  std::string out;
  histogram.write(out, "x", "m=\"a\"");
  EXPECT_EQ(out,
            "x_bucket{m=\"a\",le=\"1.0\"} 2\nx_bucket{m=\"a\",le=\"2.5\"} 3\n"
            "x_bucket{m=\"a\",le=\"+Inf\"} 4\nx_sum{m=\"a\"} 12.5\nx_count{m=\"a\"} 4\n");
}

TEST(Metrics, ReportsCountersGaugesAndHistograms) {
  Metrics metrics;
  metrics.first_token("m\"1", 0.2);
  metrics.next_token("m\"1", 0.02);
  metrics.prompt("m\"1", 30, 16);
  metrics.output("m\"1", 5);
  metrics.output("m\"1", 2);
  metrics.finished("m\"1", {.reason = "stop", .num_output = 7, .total_seconds = 1});
  engine::EngineStats stats;
  stats.num_running = 3;
  stats.blocks = {.num_blocks = 8, .num_used = 2, .num_cached = 1};
  const std::string text = metrics.text({{.model = "m\"1", .stats = stats}});
  const std::string labels = R"({model_name="m\"1",engine="0")";
  for (const std::string& line :
       {"vllm:num_requests_running" + labels + "} 3\n",
        "vllm:kv_cache_usage_perc" + labels + "} 0.25\n",
        "vllm:prompt_tokens_total" + labels + "} 30\n",
        "vllm:prompt_tokens_cached_total" + labels + "} 16\n",
        "vllm:generation_tokens_total" + labels + "} 7\n",
        "vllm:request_success_total" + labels + ",finished_reason=\"stop\"} 1\n",
        "vllm:time_to_first_token_seconds_count" + labels + "} 1\n",
        "vllm:inter_token_latency_seconds_bucket" + labels + ",le=\"0.025\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

TEST(Metrics, SpeculationCountsUnloadedModelsToo) {
  Metrics metrics;
  engine::EngineStats stats;
  stats.speculation = {.num_drafts = 5,
                       .num_draft_tokens = 20,
                       .num_accepted_tokens = 7,
                       .accepted_by_position = {4, 3, 0, 0}};
  metrics.loaded("m", 1);
  metrics.unloaded("m", 1, "idle", stats);
  metrics.loaded("m", 2);
  stats.speculation.accepted_by_position = {6, 1};
  const std::string text = metrics.text({{.model = "m", .serial = 2, .stats = stats}});
  const std::string labels = R"({model_name="m",engine="0")";
  for (const std::string& line :
       {"vllm:spec_decode_num_drafts_total" + labels + "} 10\n",
        "vllm:spec_decode_num_draft_tokens_total" + labels + "} 40\n",
        "vllm:spec_decode_num_accepted_tokens_total" + labels + "} 14\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"0\"} 10\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + ",position=\"3\"} 0\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

TEST(Metrics, CountersOfAModelNeverGoBackwards) {
  Metrics metrics;
  const auto steps = [&](const std::vector<ModelGauges>& gauges) {
    const std::string text = metrics.text(gauges);
    const std::string sample = R"(graft:steps_total{model_name="m",engine="0"} )";
    const std::size_t at = text.find("\n" + sample);
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + 1 + sample.size());
  };
  const auto gauges = [](std::uint64_t serial, std::int64_t num_steps) {
    ModelGauges model = {.model = "m", .serial = serial};
    model.stats.num_steps = num_steps;
    return std::vector{model};
  };
  metrics.loaded("m", 1);
  EXPECT_EQ(steps(gauges(1, 10)), 10);
  EXPECT_EQ(steps({}), 10) << "being unloaded";
  metrics.unloaded("m", 1, "idle", gauges(1, 12)[0].stats);
  EXPECT_EQ(steps({}), 12);
  EXPECT_EQ(steps(gauges(1, 12)), 12) << "listed before it was unloaded: not counted twice";
  metrics.loaded("m", 2);
  EXPECT_EQ(steps(gauges(2, 0)), 12);
  EXPECT_EQ(steps(gauges(2, 3)), 15);
  const std::string text = metrics.text({});
  EXPECT_NE(text.find(R"(graft:model_loads_total{model_name="m",engine="0"} 2)"),
            std::string::npos);
  EXPECT_NE(text.find(R"(graft:model_unloads_total{model_name="m",engine="0",reason="idle"} 1)"),
            std::string::npos);
}

TEST(Metrics, ReportMemoryByDeviceAndTheKvCache) {
  Metrics metrics;
  ModelGauges model = {.model = "m", .block_tokens = 16, .cache_form = "f16 64+64"};
  model.stats.blocks.num_blocks = 10;
  model.memory[kCpu] = {.weights = 7, .kv_cache = 8, .workspace = 9};
  const std::string text = metrics.text({model});
  const std::string labels = R"({model_name="m",engine="0")";
  for (const std::string& line :
       {"graft:device_memory_bytes" + labels + R"(,device="cpu",kind="weights"} 7)",
        "graft:device_memory_bytes" + labels + R"(,device="cpu",kind="kv_cache"} 8)",
        "graft:device_memory_bytes" + labels + R"(,device="cpu",kind="workspace"} 9)",
        "graft:kv_cache_tokens" + labels + "} 160",
        "vllm:cache_config_info" + labels +
            R"(,block_size="16",num_blocks="10",cache_dtype="f16 64+64"} 1)"})
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line << "\nin\n" << text;
}

TEST(Metrics, ReportTheTiersOfTheKvCache) {
  Metrics metrics;
  metrics.loaded("m", 1);
  ModelGauges model = {.model = "m", .serial = 1};
  model.stats.host_tier = {
      .capacity = 100, .bytes = 60, .num_blocks = 3, .num_hits = 7, .num_evictions = 2};
  model.stats.num_loading = 4;
  const std::string text = metrics.text({model});
  const std::string labels = R"({model_name="m",engine="0",tier="host"} )";
  for (const std::string& line :
       {"graft:kv_tier_bytes" + labels + "60", "graft:kv_tier_capacity_bytes" + labels + "100",
        "graft:kv_tier_blocks" + labels + "3", "graft:kv_tier_hits_total" + labels + "7",
        "graft:kv_tier_evictions_total" + labels + "2",
        std::string(R"(graft:kv_tier_loading{model_name="m",engine="0"} 4)")})
    EXPECT_NE(text.find(line + "\n"), std::string::npos) << line << "\nin\n" << text;
  EXPECT_EQ(text.find(R"(graft:kv_tier_bytes{model_name="m",engine="0",tier="disk"})"),
            std::string::npos)
      << "a tier that does not exist";
  // Counters keep what an unloaded model counted.
  metrics.unloaded("m", 1, "idle", model.stats);
  EXPECT_NE(metrics.text({}).find("graft:kv_tier_hits_total" + labels + "7\n"), std::string::npos);
}

// Prometheus rejects a sample without a preceding TYPE line, and two TYPE lines for one name.
TEST(Metrics, TextIsWellFormed) {
  Metrics metrics;
  metrics.first_token("a", 0.2);
  metrics.finished("b", {.reason = "length"});
  std::istringstream lines(metrics.text({{.model = "a"}, {.model = "b"}}));
  std::set<std::string> types;
  std::string name;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP")) continue;
    if (line.starts_with("# TYPE ")) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(types.insert(name).second) << name;
      continue;
    }
    EXPECT_TRUE(line.starts_with(name)) << line;
    EXPECT_NE(line.find("} "), std::string::npos) << line;
  }
  EXPECT_GT(types.size(), 15U);
}

}  // namespace
}  // namespace graft::server
