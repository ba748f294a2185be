// The arithmetic of the table, with invented measurements.

#include "graft/cli/bench/bench_table.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

TEST(SpeedTests, ListPrefillThenDecodeByBatchSize) {
  const SpeedTestLists lists = {.prompts = {512, 0}, .generated = {0, 16}, .batch_sizes = {1, 8}};
  const std::vector<SpeedTest> tests = lists.tests();
  ASSERT_EQ(tests.size(), 3U);
  EXPECT_EQ(tests[0].name(), "pp512");
  EXPECT_EQ(tests[2].name(), "tg16");
  EXPECT_EQ(tests[2].num_tokens(), 8 * 16);
  EXPECT_THROW((SpeedTestLists{.prompts = {0}, .generated = {0}}.tests()), Error);
}

TEST(SpeedRow, DecodeReadsWeightsOncePerStep) {
  const SpeedRow row = {.test = {.num_generated = 16, .num_sequences = 8},
                        .tokens_per_s = {70, 90},
                        .work = perf::Work{.weight_bytes = 1e9, .weight_flops = 2e9}};
  EXPECT_DOUBLE_EQ(row.bytes_per_s().value(), 10e9);
  EXPECT_DOUBLE_EQ(row.flops().value(), 20e9);
}

TEST(SpeedRow, PrefillHasNoBandwidth) {
  SpeedRow row = {.test = {.num_prompt = 100},
                  .tokens_per_s = {200},
                  .work = perf::Work{.weight_bytes = 1e9, .weight_flops = 5e9}};
  EXPECT_FALSE(row.bytes_per_s());
  EXPECT_DOUBLE_EQ(row.flops().value(), 10e9);
  row.work.reset();
  EXPECT_FALSE(row.flops());
}

TEST(SpeedReport, ComparesWithThePrediction) {
  SpeedReport report;
  report.rows = {{.test = {.num_generated = 16}, .tokens_per_s = {8, 12}, .predicted = 12},
                 {.test = {.num_prompt = 16}, .tokens_per_s = {8}}};
  EXPECT_NE(table_text(report).find(" 12.0 (+20 %) |"), std::string::npos) << table_text(report);
  const Json tests = report_json(report)["tests"];
  EXPECT_EQ(tests[0]["predicted_tokens_per_s"], 12.0);
  EXPECT_TRUE(tests[1]["predicted_tokens_per_s"].is_null());
}

TEST(SpeedReport, PercentagesUseTheHigherPeak) {
  SpeedReport report;
  report.header.limits = {.read_bytes_per_s = 20e9, .f32_flops = 10e9, .int8_ops = 40e9};
  report.rows = {{.test = {.num_generated = 16},
                  .tokens_per_s = {10},
                  .work = perf::Work{.weight_bytes = 1e9, .weight_flops = 2e9}}};
  const Json row = report_json(report)["tests"][0];
  EXPECT_DOUBLE_EQ(row["share_of_read"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(row["share_of_flops"].get<double>(), 0.5);
  const std::string text = table_text(report);
  EXPECT_NE(text.find("(peak: int8)"), std::string::npos) << text;
  EXPECT_NE(text.find(" 50 |"), std::string::npos) << text;
}

}  // namespace
}  // namespace graft::cli
