#include "graft/plan/checks/lost_fusions.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/plan/report.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

// The types of the matrices decide what a GPU fuses.
void set_dtype(ModuleSpec& module, DType dtype, std::string_view name = "") {
  if (module.role == ops::Role::Linear && module.name.ends_with(name)) {
    module.params = ops::LinearParams{.in_features = 256, .out_features = 128};
    module.weights.front().dtype = dtype;
  }
  for (ModuleSpec& child : module.children)
    set_dtype(child, dtype, name);
}

// Operators of GPUs without their primitives, as in a program without libgraft_cuda.so; and a
// plugin that adds `example.ROLE` on GPUs.
ops::Registry registry_with_plugin() {
  ops::Registry registry = testing::full_registry();
  for (const ops::OperatorInfo* info : registry.all()) {
    if (info->device != DeviceType::Cuda) continue;
    ops::OperatorInfo example = *info;
    example.name = str("example.", ops::name(info->role));
    example.is_native = false;
    registry.add(std::move(example));
  }
  return registry;
}

struct PluginPlan {
  Blueprint blueprint;
  ops::Registry registry = registry_with_plugin();
  RuleFile file;
  PlanResult result;

  PluginPlan(Blueprint made, DType dtype, const std::string& rules) : blueprint(std::move(made)) {
    set_dtype(blueprint.root, dtype);
    std::vector<Finding> findings;
    file = parse_rules(rules, "r.yaml", findings);
    result = make_plan(blueprint, file, registry, {.num_gpus = 2});
    EXPECT_EQ(findings_text(findings) + findings_text(result.findings), "");
  }
  std::string text() const { return lost_fusions_text(result.plan); }
};

std::string replace(const std::string& name, const std::string& op) {
  return str("- {match: {name: \"", name, "$\"}, replace: {class: ", op,
             ", kwargs: {device: \"cuda:0\"}}}\n");
}

std::string move_to_cpu(const std::string& name) {
  return str("- {match: {name: \"", name,
             "$\"}, replace: {class: default, kwargs: {device: cpu}}}\n");
}

std::string lost(const std::string& rules, DType dtype = DType::Q4_K) {
  return PluginPlan(testing::deepseek_v3(5), dtype, rules).text();
}

// The first layer has no pending add, which its first norm would convert after.
TEST(LostFusions, LinearLayersLoseTheLaunchAndTheConversion) {
  EXPECT_EQ(lost(replace("self_attn.q_a_proj", "example.linear")),
            "lost fusions:\n"
            "  model.layers.0-4.self_attn: q_a_proj+kv_a_proj_with_mqa in one launch: q_a_proj is "
            "example.linear (decode)\n"
            "  model.layers.1-4: input_layernorm+conversion for self_attn: "
            "self_attn.q_a_proj is example.linear (decode)\n");
  EXPECT_EQ(lost(replace("[.]mlp.down_proj", "example.linear")),
            "lost fusions:\n"
            "  model.layers.0-2.mlp: activation+conversion for down_proj: down_proj is "
            "example.linear (decode)\n");
  EXPECT_EQ(lost(replace("[.]o_proj", "example.linear")), "");
}

TEST(LostFusions, DependOnTheWeightTypes) {
  EXPECT_EQ(lost(replace("self_attn.q_a_proj", "example.linear"), DType::BF16), "");
  // A sibling in f32 arithmetic: there is nothing to share a launch with.
  PluginPlan planned(testing::deepseek_v3(1), DType::Q4_K,
                     replace("self_attn.q_a_proj", "example.linear"));
  EXPECT_NE(planned.text(), "");
  for (Placement& placement : planned.result.plan.placements) {
    if (placement.module->last_name() == "kv_a_proj_with_mqa")
      placement.kwargs["precision"] = "f32";
  }
  EXPECT_EQ(planned.text(), "");
}

// A launch has matrices of one type: here q_proj and k_proj share one.
TEST(LostFusions, LaunchFusionsDependOnTheWeightType) {
  const auto lost_by = [](const std::string& name) {
    PluginPlan planned(testing::mixtral(1), DType::Q4_K, replace(name, "example.linear"));
    set_dtype(planned.blueprint.root, DType::Q6_K, "v_proj");
    return planned.text();
  };
  EXPECT_EQ(lost_by("[.]k_proj"),
            "lost fusions:\n"
            "  model.layers.0.self_attn: q_proj+k_proj in one launch: k_proj is example.linear "
            "(decode)\n");
  EXPECT_EQ(lost_by("[.]v_proj"), "");
}

TEST(LostFusions, NormsAndRopeLoseThemInBothPhases) {
  EXPECT_EQ(lost(replace("input_layernorm", "example.norm"), DType::BF16),
            "lost fusions:\n"
            "  model.layers.1-4: add+input_layernorm: input_layernorm is example.norm\n");
  EXPECT_EQ(lost(move_to_cpu("rotary_emb"), DType::BF16),
            "lost fusions:\n"
            "  model.layers.0-4.self_attn: kv_a_layernorm+rotary_emb+kv_cache write in one launch: "
            "rotary_emb is on cpu\n");
}

TEST(LostFusions, CountOnlyLayersWithTheFusion) {
  // Layer 2 is the first on its device: the add is done before the copy.
  const std::string rules =
      "- {match: {layers: 2-4, name: \"input_layernorm$\"}, "
      "replace: {class: example.norm, kwargs: {device: \"cuda:1\"}}}\n"
      "- {match: {layers: 2-4}, replace: {class: default, kwargs: {device: \"cuda:1\"}}}\n" +
      replace("input_layernorm", "example.norm");
  EXPECT_EQ(lost(rules),
            "lost fusions:\n"
            "  model.layers.1,3-4: add+input_layernorm: input_layernorm is example.norm\n");
}

TEST(LostFusions, UsualPlacementsLoseNone) {
  EXPECT_EQ(lost("[]"), "");
  EXPECT_EQ(lost(move_to_cpu("[.]experts")), "");
  EXPECT_EQ(lost("- {match: {layers: 3-4}, replace: {class: default, kwargs: {device: cpu}}}\n"),
            "");
  // The whole consumer on another device has no use for rows quantized here.
  EXPECT_EQ(lost("- {match: {name: \"self_attn\"}, "
                 "replace: {class: default, kwargs: {device: cpu}}}\n"),
            "");
  // A module from a plugin calls its children as it likes.
  EXPECT_EQ(lost(replace("self_attn", "example.attention") + replace("q_a_proj", "example.linear"),
                 DType::BF16),
            "");
}

// Not a lost fusion: the attention kernels of a GPU read the blocks of its own cache.
TEST(LostFusions, AttentionOnAGpuNeedsItsOwnKvCache) {
  PluginPlan planned(testing::mixtral(1), DType::Q4_K, "[]");
  std::vector<Finding> findings;
  planned.file = parse_rules(replace("kv_cache", "example.kv_cache"), "r.yaml", findings);
  planned.result = make_plan(planned.blueprint, planned.file, planned.registry, {.num_gpus = 2});
  EXPECT_EQ(findings_text(planned.result.findings),
            "r.yaml:1: error: attention on a GPU needs the KV cache operator cuda.kv_cache (at "
            "model.layers.0.self_attn)\n");
}

TEST(LostFusions, JsonNamesChildrenAndPhases) {
  const PluginPlan planned(testing::mixtral(2), DType::Q4_K,
                           replace("[.]k_proj", "example.linear"));
  const Json json = plan_json(planned.result.plan)["lost_fusions"];
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1], parse_json(R"({"module": "model.layers.1.self_attn",
      "fusion": "q_proj+k_proj+v_proj in one launch", "children": ["q_proj", "k_proj", "v_proj"],
      "replaced": [{"child": "k_proj", "op": "example.linear", "device": "cuda:0"}],
      "phases": ["generate"]})",
                                "want"));
  EXPECT_NE(plan_text(planned.result.plan).find("lost fusions:"), std::string::npos);
}

}  // namespace
}  // namespace graft::plan
