// LLaVA and LLaVA-NeXT against Transformers: features of images, and logits of prompts with them.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/models/build/make_blueprint.h"
#include "graft/models/open_model.h"
#include "graft/models/weights/verify.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/registry.h"
#include "graft/perf/memory.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"
#include "graft/tensor/device.h"
#include "graft/testing/device.h"
#include "graft/testing/golden.h"
#include "graft/testing/vision/golden_images.h"

namespace graft::models {
namespace {

namespace fs = std::filesystem;

constexpr Device kGpu0 = {.type = DeviceType::Cuda, .index = 0};
constexpr Device kGpu1 = {.type = DeviceType::Cuda, .index = 1};

OpenOptions exact_options() {
  return {.rules = std::string(kExactCacheRule), .load = {.repack = false}};
}

OpenOptions on_test_devices(const std::string& rules) {
  OpenOptions options;
  options.rules = rules;
  options.load.repack = false;
  options.machine.num_gpus = 2;
  options.operators = ops::testing::with_test_devices;
  return options;
}

TEST(VisionGolden, LlavaMatchesTransformers) {
  OpenModel open(golden_checkpoint("llava"), exact_options());
  testing::expect_llava(open, {});
}

TEST(VisionGolden, LlavaNextMatchesTransformers) {
  OpenModel open(golden_checkpoint("llava-next"), exact_options());
  testing::expect_llava_next(open, {.features = 1e-3});
}

TEST(VisionGolden, PackedWeightsAreClose) {
  const fs::path folder = golden_checkpoint("llava");
  OpenModel exact(folder, exact_options());
  OpenModel packed(folder, {.rules = std::string(kExactCacheRule)});
  const vision::PreparedImage image = testing::picture("photo.webp", exact);
  EXPECT_LE(
      testing::vision_error(packed.model().encode_image(image), exact.model().encode_image(image)),
      3e-2);
}

// Features cross to where the embeddings of the text model are.
TEST(VisionGolden, TowerProjectorAndTextRunOnDevicesOfTheirOwn) {
  for (const auto& [tower, projector, text] :
       {std::array{"cuda:0", "cuda:0", "cuda:0"}, std::array{"cuda:0", "cuda:0", "cpu"},
        std::array{"cpu", "cpu", "cuda:0"}, std::array{"cuda:1", "cuda:1", "cuda:0"},
        std::array{"cuda:0", "cpu", "cuda:1"}, std::array{"cpu", "cuda:0", "cpu"}}) {
    const std::string rules = testing::vision_rules(tower, projector, text, {});
    SCOPED_TRACE(rules);
    OpenModel open(golden_checkpoint("llava"), on_test_devices(rules));
    testing::expect_llava(open, {});
    OpenModel next(golden_checkpoint("llava-next"), on_test_devices(rules));
    testing::expect_llava_next(next, {.features = 1e-3});
  }
}

plan::PlanResult plan_of(const plan::Blueprint& blueprint, const std::string& text) {
  static const ops::Registry registry = ops::builtin_operators();
  static std::vector<std::unique_ptr<plan::RuleFile>> files;
  std::vector<plan::Finding> findings;
  files.push_back(std::make_unique<plan::RuleFile>(plan::parse_rules(text, "rules", findings)));
  EXPECT_TRUE(findings.empty());
  return plan::make_plan(blueprint, *files.back(), registry, {.num_gpus = 2, .plan_only = true});
}

void expect_vision_on(const plan::PlanResult& result, Device device) {
  EXPECT_FALSE(plan::has_errors(result.findings)) << plan::findings_text(result.findings);
  EXPECT_EQ(result.plan.at("vision_tower").decode.device(), device);
  EXPECT_EQ(result.plan.at("multi_modal_projector").decode.device(), device);
}

TEST(VisionPlan, RulesForAllModulesPlaceTheTower) {
  const auto source = open_checkpoint(golden_checkpoint("llava"));
  const plan::Blueprint blueprint = make_blueprint(*source);
  expect_vision_on(plan_of(blueprint, "[]"), kGpu0);
  expect_vision_on(
      plan_of(blueprint,
              R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: "cuda:1"}}})"),
      kGpu1);
  expect_vision_on(
      plan_of(blueprint,
              R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: cpu}}})"),
      kCpu);
}

TEST(VisionPlan, CountsWeightsAndWorkspaceWhereTheTowerRuns) {
  const auto source = open_checkpoint(golden_checkpoint("llava"));
  const plan::Blueprint blueprint = make_blueprint(*source);
  constexpr const char* kTextOnCpu = R"(
- {match: {role: vision_tower}, replace: {class: default, kwargs: {device: "cuda:0"}}}
- {match: {role: multi_modal_projector}, replace: {class: default, kwargs: {device: "cuda:0"}}}
- {match: {name: ""}, replace: {class: default, kwargs: {device: cpu}}}
)";
  const plan::PlanResult result = plan_of(blueprint, kTextOnCpu);
  expect_vision_on(result, kGpu0);
  const auto use = perf::memory_use(result.plan, {.context = 64, .prefill_tokens = 16});
  const plan::Placement& tower = result.plan.at("vision_tower");
  const plan::Placement& projector = result.plan.at("multi_modal_projector");
  EXPECT_GE(use.at(kGpu0).weights, tower.weight_bytes + projector.weight_bytes);
  EXPECT_EQ(use.at(kGpu0).workspace,
            static_cast<std::uint64_t>(perf::vision_scratch_bytes(*tower.module) +
                                       perf::vision_scratch_bytes(*projector.module)));
  EXPECT_GT(perf::vision_scratch_bytes(*tower.module), 0);
}

// A tower with heads that the GPU's kernels do not have.
TEST(VisionPlan, ATowerWithoutAGpuOperatorStaysOnTheCpu) {
  const auto source = open_checkpoint(golden_checkpoint("llava"));
  plan::Blueprint blueprint = make_blueprint(*source);
  for (plan::ModuleSpec& module : blueprint.root.children) {
    auto* tower = std::get_if<ops::VisionTowerParams>(&module.params);
    if (tower != nullptr) tower->hidden_size = 2 * ops::kMaxVisionHeadDim * tower->num_heads;
  }
  for (const char* rules :
       {"[]", R"(- {match: {name: ""}, replace: {class: default, kwargs: {device: "cuda:0"}}})"}) {
    const plan::PlanResult result = plan_of(blueprint, rules);
    EXPECT_FALSE(plan::has_errors(result.findings)) << plan::findings_text(result.findings);
    EXPECT_EQ(result.plan.at("vision_tower").decode.device(), kCpu);
    EXPECT_EQ(result.plan.at("lm_head").decode.device(), kGpu0);
  }
  const plan::PlanResult refused = plan_of(
      blueprint,
      R"(- {match: {role: vision_tower}, replace: {class: default, kwargs: {device: "cuda:0"}}})");
  EXPECT_NE(plan::findings_text(refused.findings)
                .find("no operator for role vision_tower on cuda in this build"),
            std::string::npos)
      << plan::findings_text(refused.findings);
}

}  // namespace
}  // namespace graft::models
