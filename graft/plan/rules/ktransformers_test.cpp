// Rule files in the style of KTransformers' own: Python module paths, layer ranges as digit
// patterns, one set of rules per GPU, catch-all rules at the end.

#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/plan/plan.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

constexpr const char* kLayerRules = R"(
- match:
    name: "^model\\.layers\\.DIGITS\\."
    class: ktransformers.models.modeling_deepseek_v3.DeepseekV3RotaryEmbedding
  replace:
    class: ktransformers.operators.RoPE.YarnRotaryEmbeddingV3
    kwargs: {generate_device: "GPU", prefill_device: "GPU"}
- match:
    name: "^model\\.layers\\.DIGITS\\.(?!self_attn\\.kv_b_proj).*$"
    class: torch.nn.Linear
  replace:
    class: ktransformers.operators.linear.KTransformersLinear
    kwargs:
      generate_device: "GPU"
      prefill_device: "GPU"
      generate_op: "KLinearMarlin"
      prefill_op: "KLinearTorch"
- match:
    name: "^model\\.layers\\.DIGITS\\.mlp$"
    class: ktransformers.models.modeling_deepseek_v3.DeepseekV3MoE
  replace:
    class: ktransformers.operators.experts.KDeepseekV3MoE
    kwargs: {generate_device: "GPU", prefill_device: "GPU"}
- match:
    name: "^model\\.layers\\.DIGITS\\.mlp\\.gate$"
    class: ktransformers.models.modeling_deepseek_v3.MoEGate
  replace:
    class: ktransformers.operators.gate.KMoEGate
    kwargs: {generate_device: "GPU", prefill_device: "GPU"}
- match:
    name: "^model\\.layers\\.DIGITS\\.mlp\\.experts$"
  replace:
    class: ktransformers.operators.experts.KTransformersExperts
    kwargs:
      prefill_device: "GPU"
      prefill_op: "KExpertsTorch"
      generate_device: "cpu"
      generate_op:  "KExpertsCPU"
      out_device: "GPU"
      backend: "llamafile"
  recursive: False
- match:
    name: "^model\\.layers\\.DIGITS\\.self_attn$"
  replace:
    class: ktransformers.operators.attention.KDeepseekV2Attention
    kwargs: {generate_device: "GPU", prefill_device: "GPU", absorb_for_prefill: False}
)";

// kLayerRules for the layers whose number matches the pattern `digits`, on `gpu`.
std::string layer_rules(const std::string& digits, const std::string& gpu) {
  std::string rules = kLayerRules;
  for (const auto& [word, value] : {std::pair{"DIGITS", digits}, std::pair{"GPU", gpu}}) {
    for (auto at = rules.find(word); at != std::string::npos; at = rules.find(word)) {
      rules.replace(at, std::string_view(word).size(), value);
    }
  }
  return rules;
}

std::string catch_all(const std::string& regex, const std::string& device) {
  return str("- match: {name: \"", regex,
             "\"}\n  replace: {class: \"default\", kwargs: ", "{generate_device: \"", device,
             "\", prefill_device: \"", device, "\"}}\n");
}

std::string two_gpu_file() {
  return catch_all("^model.embed_tokens", "cpu") + layer_rules("(0|[1-9]|[12][0-9])", "cuda:0") +
         layer_rules("([3456][0-9])", "cuda:1") +
         R"(
- match: {name: "^model$"}
  replace:
    class: "ktransformers.operators.models.KDeepseekV2Model"
    kwargs:
      per_layer_prefill_intput_threshold: 0
      transfer_map:
        30: "cuda:1"
- match: {name: "^lm_head", class: torch.nn.Linear}
  replace:
    class: ktransformers.operators.linear.KTransformersLinear
    kwargs: {generate_device: "cuda:1", prefill_device: "cuda:1", generate_op: "VLinearMarlin"}
)" + catch_all(R"(^model\\.layers\\.(0|[1-9]|[12][0-9])\\.)", "cuda:0") +
         catch_all(R"((^model\\.layers\\.([3456][0-9])\\.)|(model.norm))", "cuda:1");
}

TEST(KTransformers, TwoGpuFilePlansEveryModule) {
  const Blueprint blueprint = testing::deepseek_v3();
  const ops::Registry registry = testing::cpu_registry();
  std::vector<Finding> findings;
  const RuleFile file = parse_rules(two_gpu_file(), "r.yaml", findings);
  const PlanResult result =
      make_plan(blueprint, file, registry, {.num_gpus = 2, .plan_only = true});
  EXPECT_EQ(findings_text(findings) + findings_text(result.findings), "");

  const auto device = [&](const char* module) {
    return to_string(result.plan.at(module).decode.device());
  };
  EXPECT_EQ(device("model.embed_tokens"), "cpu");
  EXPECT_EQ(device("model.layers.29.self_attn.q_a_proj"), "cuda:0");
  EXPECT_EQ(device("model.layers.30.self_attn.q_a_proj"), "cuda:1");
  EXPECT_EQ(device("model.layers.30.self_attn.kv_cache"), "cuda:1");
  EXPECT_EQ(device("model.layers.60.mlp.experts"), "cpu");
  EXPECT_EQ(device("model.norm"), "cuda:1");
  EXPECT_EQ(device("lm_head"), "cuda:1");
  // No pattern matches a layer module itself (no dot after its number): the default device.
  EXPECT_EQ(device("model.layers.60"), "cuda:0");

  const Placement& experts = result.plan.at("model.layers.60.mlp.experts");
  EXPECT_EQ(experts.decode.op->name, "cpu.experts");
  EXPECT_EQ(experts.prefill.op->name, "cuda.experts");
  EXPECT_EQ(to_string(experts.out_device), "cuda:1");
  // The lookahead excludes it from the Marlin rule, so the catch-all applies.
  const Placement& kv_b = result.plan.at("model.layers.3.self_attn.kv_b_proj");
  EXPECT_EQ(kv_b.rule->replace_class, "default");
  EXPECT_EQ(result.plan.transfer_map.at(30), (Device{.type = DeviceType::Cuda, .index = 1}));
}

TEST(KTransformers, MissingGpusAreReportedOnce) {
  const Blueprint blueprint = testing::deepseek_v3();
  const ops::Registry registry = testing::full_registry();
  std::vector<Finding> findings;
  const RuleFile file = parse_rules(two_gpu_file(), "r.yaml", findings);
  const PlanResult result = make_plan(blueprint, file, registry, {.num_gpus = 1});
  EXPECT_FALSE(result.ok());
  std::size_t num_errors = 0;
  for (const Finding& finding : result.findings) {
    if (finding.kind != Finding::Kind::Error) continue;
    ++num_errors;
    EXPECT_EQ(finding.text,
              "9 rules place modules on cuda:1, but this machine has 1 GPU (cuda:0): change the "
              "device, or plan for another machine with --gpus 2 --vram 24G");
  }
  EXPECT_EQ(num_errors, 1U);
}

// The first pattern ends after the layer's number, a mistake found in a published file.
TEST(KTransformers, DeadRulesAreReported) {
  const Blueprint blueprint = testing::qwen2_moe();
  const ops::Registry registry = testing::cpu_registry();
  std::vector<Finding> findings;
  const RuleFile file = parse_rules(R"(
- match: {name: "^model\\.layers\\.([012])$", class: torch.nn.Linear}
  replace: {class: ktransformers.operators.linear.KTransformersLinear}
- match: {name: "^model\\.layers\\.", class: ktransformers.models.modeling_qwen2_moe.Qwen2MoeMLP}
  replace: {class: ktransformers.operators.mlp.KQwen2MoeMLP}
- match: {name: "^model\\.layers\\..*\\.mlp\\.experts$", class: ktransformers.operators.experts.KExpertsCPU}
  replace: {class: default}
- match: {name: "shared_expert$"}
  replace: {class: default}
)",
                                    "r.yaml", findings);
  EXPECT_EQ(findings_text(make_plan(blueprint, file, registry, {}).findings),
            "r.yaml:2: warning: the rule matches no module of this model\n"
            "r.yaml:6: warning: the rule matches no module of this model\n"
            "r.yaml:8: warning: the rule is never applied: all 28 modules it matches are matched "
            "first by line 4\n");
}

}  // namespace
}  // namespace graft::plan
