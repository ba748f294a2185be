#include "graft/server/metrics.h"

#include <array>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

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
