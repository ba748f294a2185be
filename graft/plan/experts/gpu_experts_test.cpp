#include "graft/plan/experts/gpu_experts.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/plan/report.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

constexpr Device kGpu = {.type = DeviceType::Cuda, .index = 0};
constexpr const char* kExperts = "model.layers.4.mlp.experts";

// DeepSeek-V3's module tree with 100 experts in layers 3 and 4.
class GpuExpertsTest : public ::testing::Test {
 protected:
  const Placement& place(const std::string& kwargs) {
    std::vector<Finding> findings;
    file_ = parse_rules(
        "- match: {role: experts}\n  replace: {class: experts, kwargs: "
        "{generate_device: cpu, prefill_device: \"cuda:0\", " +
            kwargs + "}}\n",
        "r.yaml", findings);
    result_ = make_plan(blueprint_, file_, registry_, {.num_gpus = 1});
    EXPECT_EQ(findings_text(result_.findings), "");
    return result_.plan.at(kExperts);
  }
  Placement& experts() {
    for (Placement& placement : result_.plan.placements)
      if (placement.module->name == kExperts) return placement;
    return result_.plan.placements.front();
  }
  Plan& plan() { return result_.plan; }

 private:
  Blueprint blueprint_ = testing::deepseek_v3(5);
  ops::Registry registry_ = testing::full_registry();
  RuleFile file_;
  PlanResult result_;
};

TEST_F(GpuExpertsTest, AreSharesOfBothPhases) {
  const Placement& experts = place("gpu_experts: 16");
  EXPECT_EQ(experts.decode.op->name, "cuda.experts");
  EXPECT_EQ(experts.prefill.op, experts.decode.op);
  ASSERT_NE(experts.host_op, nullptr);
  EXPECT_EQ(experts.host_op->name, "cpu.experts");
  ASSERT_EQ(experts.decode.shares.size(), 2U);
  const Share& gpu = experts.decode.shares[0];
  EXPECT_EQ(gpu.device, kGpu);
  EXPECT_EQ(gpu.part.axis, Part::Axis::Experts);
  EXPECT_EQ(gpu.part.begin, 0);
  EXPECT_EQ(gpu.part.end, 16);
  EXPECT_DOUBLE_EQ(gpu.fraction, 0.16);
  EXPECT_DOUBLE_EQ(gpu.held, 0.16);
  const Share& cpu = experts.decode.shares[1];
  EXPECT_EQ(cpu.device, kCpu);
  EXPECT_EQ(cpu.part.begin, 16);
  EXPECT_EQ(cpu.part.end, 100);
  EXPECT_DOUBLE_EQ(cpu.fraction, 0.84);
  EXPECT_DOUBLE_EQ(cpu.held, 1);
  EXPECT_EQ(experts.prefill.shares, experts.decode.shares);
  EXPECT_EQ(experts.out_device, kGpu);
  EXPECT_EQ(gpu_experts(experts), 16);
  EXPECT_EQ(stream_from(experts), 256);
  // The CPU holds all experts.
  EXPECT_EQ(experts.bytes_of(cpu), experts.weight_bytes);
  EXPECT_EQ(weight_bytes_on(plan(), kCpu), 2 * experts.weight_bytes);
}

TEST_F(GpuExpertsTest, OperatorsReadIntegers) {
  EXPECT_EQ(place("gpu_experts: 16").kwargs.at("gpu_experts"), "16");
  EXPECT_EQ(place("gpu_experts: 12.5%").kwargs.at("gpu_experts"), "12");
  EXPECT_EQ(place("gpu_experts: 0.5%").kwargs.at("gpu_experts"), "1");
  const Placement& none = place("gpu_experts: 0");
  EXPECT_EQ(none.kwargs.at("gpu_experts"), "0");
  EXPECT_EQ(none.decode.op->name, "cpu.experts");
  EXPECT_FALSE(none.decode.is_split());
  EXPECT_EQ(gpu_experts(none), 0);
}

TEST_F(GpuExpertsTest, AutoCountsAsNoneUntilItIsResolved) {
  const Placement& experts = place("gpu_experts: auto");
  EXPECT_TRUE(has_auto_gpu_experts(experts));
  EXPECT_EQ(gpu_experts(experts), 0);
  EXPECT_EQ(experts.decode.device(), kCpu);
  EXPECT_NE(plan_text(plan()).find("cpu, prefill cuda:0 with gpu_experts auto"), std::string::npos)
      << plan_text(plan());
  settle_gpu_experts(plan());
  EXPECT_FALSE(has_auto_gpu_experts(experts));
  EXPECT_EQ(experts.kwargs.at("gpu_experts"), "0");
}

TEST_F(GpuExpertsTest, CanBeSetAndUnset) {
  place("gpu_experts: auto");
  set_gpu_experts(experts(), 30);
  EXPECT_EQ(gpu_experts(experts()), 30);
  EXPECT_EQ(experts().kwargs.at("gpu_experts"), "30");
  EXPECT_EQ(experts().decode.device(), kGpu);
  EXPECT_EQ(experts().out_device, kGpu);
  set_gpu_experts(experts(), 0);
  EXPECT_EQ(experts().decode.op->name, "cpu.experts");
  EXPECT_EQ(experts().decode.device(), kCpu);
  EXPECT_EQ(experts().prefill.device(), kGpu);
  EXPECT_FALSE(experts().prefill.is_split());
  EXPECT_EQ(experts().out_device, kCpu);
}

TEST_F(GpuExpertsTest, ReportsCountThem) {
  place("gpu_experts: 16");
  const std::string text = plan_text(plan());
  EXPECT_NE(text.find("cuda.experts + cpu.experts"), std::string::npos) << text;
  EXPECT_NE(text.find("cuda:0 16 of 100 experts + cpu 84 of 100 experts"), std::string::npos)
      << text;
  const Json json = plan_json(plan());
  for (const Json& row : json["placements"]) {
    if (row["module"] != kExperts) continue;
    EXPECT_EQ(row["generate_op"], "cuda.experts");
    EXPECT_EQ(row["host_op"], "cpu.experts");
    const Json& shares = row["shares"]["generate"];
    EXPECT_EQ(shares[0]["device"], "cuda:0");
    EXPECT_EQ(shares[0]["part"], "16 of 100 experts");
    EXPECT_EQ(shares[1]["part"], "84 of 100 experts");
    EXPECT_EQ(shares[1]["weight_bytes"], row["weight_bytes"]);
  }
}

}  // namespace
}  // namespace graft::plan
