#include "graft/plan/rules/default_rules.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/plan/plan.h"
#include "graft/plan/report.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

namespace fs = std::filesystem;

const fs::path kRulesFolder = fs::path(GRAFT_SOURCE_DIR) / "rules";

// GRAFT_RULES_DIR makes the tests independent of the working directory.
class DefaultRules : public ::testing::Test {
 protected:
  void SetUp() override { setenv("GRAFT_RULES_DIR", kRulesFolder.c_str(), 1); }
  void TearDown() override { unsetenv("GRAFT_RULES_DIR"); }
};

TEST_F(DefaultRules, AreChosenByFamilyAndMachine) {
  EXPECT_EQ(default_rules("deepseek_v3", 0), kRulesFolder / "cpu.yaml");
  EXPECT_EQ(default_rules("deepseek_v3", 1), kRulesFolder / "hybrid/deepseek_v3.yaml");
  EXPECT_EQ(default_rules("kimi_k2", 1), kRulesFolder / "hybrid/kimi_k2.yaml");
  EXPECT_EQ(default_rules("deepseek_v3", 1, true), kRulesFolder / "gpu.yaml");
  EXPECT_TRUE(fits_gpu(std::uint64_t{5} << 30U, std::uint64_t{8} << 30U));
  EXPECT_FALSE(fits_gpu(std::uint64_t{7} << 30U, std::uint64_t{8} << 30U));
  EXPECT_EQ(default_rules("llama", 2), kRulesFolder / "gpu.yaml");
  EXPECT_EQ(default_rules("../cpu", 1), kRulesFolder / "gpu.yaml");
  EXPECT_EQ(default_rules("", 1), kRulesFolder / "gpu.yaml");
  setenv("GRAFT_RULES_DIR", "/nonexistent", 1);
  EXPECT_THROW(default_rules("llama", 0), Error);
}

TEST_F(DefaultRules, FilesHaveNoFindings) {
  const ops::Registry registry = testing::full_registry();
  const Blueprint blueprint = testing::deepseek_v3();
  std::size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kRulesFolder)) {
    if (entry.path().extension() != ".yaml") continue;
    ++num_files;
    std::vector<Finding> findings;
    const RuleFile file = read_rules(entry.path(), findings);
    const PlanResult result = make_plan(blueprint, file, registry, {.num_gpus = 1});
    EXPECT_EQ(findings_text(findings) + findings_text(result.findings), "");
  }
  EXPECT_EQ(num_files, 19U);
}

TEST_F(DefaultRules, HybridKeepsExpertsInHostMemory) {
  const ops::Registry registry = testing::full_registry();
  for (const Blueprint& blueprint :
       {testing::deepseek_v2(), testing::deepseek_v3(), testing::mixtral(), testing::qwen2_moe()}) {
    std::vector<Finding> findings;
    const RuleFile file = read_rules(default_rules(blueprint.family, 1), findings);
    const PlanResult result = make_plan(blueprint, file, registry, {.num_gpus = 1});
    ASSERT_TRUE(result.ok()) << blueprint.family;
    for (const Placement& placement : result.plan.placements) {
      const ops::Role role = placement.module->role;
      const bool on_cpu = role == ops::Role::Experts || role == ops::Role::Embedding;
      EXPECT_EQ(to_string(placement.decode.device()), on_cpu ? "cpu" : "cuda:0")
          << placement.module->name;
      EXPECT_EQ(to_string(placement.out_device), "cuda:0") << placement.module->name;
    }
  }
}

}  // namespace
}  // namespace graft::plan
