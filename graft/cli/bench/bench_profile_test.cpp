#include "graft/cli/bench/bench_profile.h"

#include <gtest/gtest.h>

namespace graft::cli {
namespace {

TEST(BenchProfile, SumsLayersAndExcludesChildren) {
  const ModuleProfile before = {{"model.layers.0.mlp", {.calls = 1, .seconds = 1.0}},
                                {"lm_head", {.calls = 2, .seconds = 0.5}}};
  const ModuleProfile after = {{"lm_head", {.calls = 2, .seconds = 0.5}},
                               {"model.layers.0.mlp", {.calls = 3, .seconds = 5.0}},
                               {"model.layers.0.mlp.experts", {.calls = 2, .seconds = 3.0}},
                               {"model.layers.1.mlp", {.calls = 2, .seconds = 4.0}},
                               {"model.layers.1.mlp.experts", {.calls = 2, .seconds = 2.5}},
                               {"model.layers.10.self_attn.o_proj", {.calls = 1, .seconds = 0.25}}};
  const std::vector<ModuleTime> times = module_times(before, after);
  ASSERT_EQ(times.size(), 3U);  // lm_head was not called between the snapshots
  EXPECT_EQ(times[0].module, "model.layers.*.mlp.experts");
  EXPECT_EQ(times[0].calls, 4);
  EXPECT_DOUBLE_EQ(times[0].seconds, 5.5);
  EXPECT_EQ(times[1].module, "model.layers.*.mlp");
  EXPECT_EQ(times[1].calls, 4);
  EXPECT_DOUBLE_EQ(times[1].seconds, 2.5);
  EXPECT_EQ(times[2].module, "model.layers.*.self_attn.o_proj");
  EXPECT_DOUBLE_EQ(times[2].seconds, 0.25);
}

TEST(BenchProfile, PercentagesAreOfAllModules) {
  const std::string table =
      module_table({{.module = "a", .calls = 2, .seconds = 3e-3}, {"b", 1, 1e-3}});
  EXPECT_NE(table.find("1500.0 |      75.0 |"), std::string::npos) << table;
  EXPECT_NE(table.find("1000.0 |      25.0 |"), std::string::npos) << table;
}

TEST(BenchProfile, JsonHasEveryModule) {
  const Json json = module_json({{.module = "a", .calls = 2, .seconds = 0.5}});
  EXPECT_EQ(json.dump(), R"([{"calls":2,"module":"a","seconds":0.5}])");
}

}  // namespace
}  // namespace graft::cli
