#include "graft/plan/experts/deferral.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/plan/report.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

// DeepSeek-V3's module tree with experts in layers 3, 4 and 5, 2 of which a token uses.
class DeferralTest : public ::testing::Test {
 protected:
  void place(const std::string& rules) {
    std::vector<Finding> findings;
    file_ = parse_rules(rules, "r.yaml", findings);
    EXPECT_EQ(findings_text(findings), "");
    result_ = make_plan(blueprint_, file_, registry_, {.num_gpus = 1});
  }
  std::string findings() const { return findings_text(result_.findings); }
  std::int64_t deferred(int layer) const {
    return deferred_experts(
        result_.plan.at("model.layers." + std::to_string(layer) + ".mlp.experts"));
  }
  const Plan& plan() const { return result_.plan; }

 private:
  Blueprint blueprint_ = testing::deepseek_v3(6);
  ops::Registry registry_ = testing::full_registry();
  RuleFile file_;
  PlanResult result_;
};

TEST_F(DeferralTest, TheLastLayerDefersNothing) {
  for (const char* devices : {"device: cpu", "generate_device: cpu, prefill_device: \"cuda:0\"",
                              "generate_device: cpu, prefill_device: \"cuda:0\", gpu_experts: 4"}) {
    SCOPED_TRACE(devices);
    place("- match: {role: experts}\n  replace: {class: default, kwargs: {defer: 1, " +
          std::string(devices) + "}}\n");
    EXPECT_EQ(findings(), "");
    EXPECT_EQ(deferred(3), 1);
    EXPECT_EQ(deferred(4), 1);
    EXPECT_EQ(deferred(5), 0);
    EXPECT_EQ(deferred_experts(plan()), 1);
  }
  EXPECT_NE(plan_text(plan()).find("with 1 deferred"), std::string::npos) << plan_text(plan());
}

TEST_F(DeferralTest, IsOffByDefault) {
  place("- match: {role: experts}\n  replace: {class: default, kwargs: {device: cpu}}\n");
  EXPECT_EQ(deferred_experts(plan()), 0);
  EXPECT_EQ(plan_text(plan()).find("deferred"), std::string::npos);
}

TEST_F(DeferralTest, NeedsExpertsOfTheCpuInTheNextLayer) {
  place(R"yaml(
- match: {name: "layers.4.mlp.experts$"}
  replace: {class: default, kwargs: {device: "cuda:0"}}
- match: {role: experts}
  replace: {class: default, kwargs: {device: cpu, defer: 1}}
)yaml");
  EXPECT_EQ(findings(),
            "r.yaml:5: warning: defer: 1 has no effect: model.layers.4.mlp.experts generates with "
            "cuda.experts on cuda:0 (at model.layers.3.mlp.experts)\n");
  EXPECT_EQ(deferred_experts(plan()), 0);
}

TEST_F(DeferralTest, NeedsExpertsThatGenerateOnTheCpu) {
  place(R"yaml(
- match: {role: experts}
  replace: {class: default, kwargs: {generate_device: "cuda:0", prefill_device: cpu, defer: 1}}
)yaml");
  EXPECT_NE(findings().find("defer: 1 has no effect"), std::string::npos) << findings();
  place(R"yaml(
- match: {role: experts}
  replace: {class: default, kwargs: {device: "cuda:0", defer: 1}}
)yaml");
  EXPECT_NE(findings().find("unknown kwarg \"defer\" of cuda.experts"), std::string::npos)
      << findings();
}

TEST_F(DeferralTest, OneExpertOfATokenStays) {
  place("- match: {role: experts}\n  replace: {class: default, kwargs: {device: cpu, defer: 2}}\n");
  EXPECT_NE(findings().find("cpu.experts: defer is 2, a token has 2 experts, and one must stay"),
            std::string::npos)
      << findings();
}

}  // namespace
}  // namespace graft::plan
