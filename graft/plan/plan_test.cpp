#include "graft/plan/plan.h"

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

using testing::cpu_registry;
using testing::full_registry;

constexpr Device kGpu0 = {.type = DeviceType::Cuda, .index = 0};
constexpr Device kGpu1 = {.type = DeviceType::Cuda, .index = 1};

// Keeps alive what a plan points into.
struct Case {
  Blueprint blueprint;
  ops::Registry registry;
  RuleFile file;
  PlanResult result;

  Case(Blueprint model, ops::Registry operators, const std::string& rules, Machine machine)
      : blueprint(std::move(model)), registry(std::move(operators)) {
    std::vector<Finding> findings;
    file = parse_rules(rules, "r.yaml", findings);
    EXPECT_EQ(findings_text(findings), "");
    result = make_plan(blueprint, file, registry, machine);
  }
  std::string findings() const { return findings_text(result.findings); }
  const Placement& at(std::string_view module) const { return result.plan.at(module); }
  int line(std::string_view module) const {
    return at(module).rule == nullptr ? 0 : at(module).rule->line;
  }
};

Case on_cpu(const std::string& rules) {
  return {testing::deepseek_v3(5), cpu_registry(), rules, {}};
}

Case on_gpus(const std::string& rules, int num_gpus = 2) {
  return {testing::deepseek_v3(5), full_registry(), rules, {.num_gpus = num_gpus}};
}

TEST(Plan, WithoutRulesUsesDefaults) {
  const Case cpu = on_cpu("[]");
  EXPECT_EQ(cpu.findings(), "");
  EXPECT_EQ(cpu.at("lm_head").decode.op->name, "cpu.linear");
  EXPECT_EQ(cpu.at("lm_head").decode.device(), kCpu);
  EXPECT_EQ(cpu.at("lm_head").weight_bytes, 128U * 256U * 2U);
  EXPECT_EQ(cpu.at("model").decode.op, nullptr);
  EXPECT_EQ(cpu.at("lm_head").rule, nullptr);
  const Case gpu = on_gpus("[]");
  EXPECT_EQ(gpu.at("lm_head").decode.op->name, "cuda.linear");
  EXPECT_EQ(gpu.at("lm_head").decode.device(), kGpu0);
}

TEST(Plan, DefaultDeviceNeedsOperatorsAndAGpu) {
  EXPECT_EQ(default_device(full_registry(), {.num_gpus = 1}), kGpu0);
  EXPECT_EQ(default_device(full_registry(), {}), kCpu);
  EXPECT_EQ(default_device(cpu_registry(), {.num_gpus = 1}), kCpu);
  EXPECT_EQ(default_device(cpu_registry(), {.num_gpus = 1, .plan_only = true}), kGpu0);
}

TEST(Plan, FirstMatchWins) {
  const Case plan = on_gpus(R"(
- match: {name: "q_a_proj$"}
  replace: {class: default, kwargs: {device: "cuda:1"}}
- match: {class: torch.nn.Linear}
  replace: {class: linear, kwargs: {device: cpu}}
)");
  EXPECT_EQ(plan.findings(), "");
  EXPECT_EQ(plan.at("model.layers.2.self_attn.q_a_proj").decode.device(), kGpu1);
  EXPECT_EQ(plan.at("model.layers.2.self_attn.q_b_proj").decode.device(), kCpu);
  EXPECT_EQ(plan.at("model.layers.2.self_attn.q_b_proj").decode.op->name, "cpu.linear");
  EXPECT_EQ(plan.at("model.norm").decode.device(), kGpu0);
}

TEST(Plan, AllKeysOfAMatchMustHold) {
  const Case plan = on_cpu(R"(
- match: {name: mlp, class: Linear, layers: [0-1, 4], role: linear}
  replace: {class: linear}
)");
  EXPECT_EQ(plan.line("model.layers.1.mlp.up_proj"), 2);
  EXPECT_EQ(plan.line("model.layers.2.mlp.up_proj"), 0);
  EXPECT_EQ(plan.line("model.layers.4.mlp.shared_experts.up_proj"), 2);
  EXPECT_EQ(plan.line("model.layers.4.mlp.gate"), 0);
  EXPECT_EQ(plan.line("model.layers.1.self_attn.o_proj"), 0);
  EXPECT_EQ(plan.line("lm_head"), 0);
}

TEST(Plan, BaseClassesMatchDerivedClasses) {
  const Case plan = on_cpu(R"(
- match: {class: ktransformers.models.modeling_deepseek_v3.DeepseekV3RotaryEmbedding}
  replace: {class: ktransformers.operators.RoPE.YarnRotaryEmbeddingV3}
)");
  EXPECT_EQ(plan.findings(), "");
  EXPECT_EQ(plan.line("model.layers.0.self_attn.rotary_emb"), 2);
}

TEST(Plan, NothingIsInherited) {
  const Case plan = on_gpus(R"(
- match: {role: attention}
  replace: {class: attention, kwargs: {device: "cuda:1"}}
)");
  EXPECT_EQ(plan.at("model.layers.0.self_attn").decode.device(), kGpu1);
  EXPECT_EQ(plan.at("model.layers.0.self_attn.o_proj").decode.device(), kGpu0);
  // Except by the KV cache, which must be on its attention's device.
  EXPECT_EQ(plan.at("model.layers.0.self_attn.kv_cache").decode.device(), kGpu1);
}

TEST(Plan, NonRecursiveRulesExcludeDescendants) {
  const Case plan = on_gpus(R"(
- match: {role: moe}
  replace: {class: moe, kwargs: {generate_device: cpu, prefill_device: "cuda:1"}}
  recursive: False
- match: {role: linear}
  replace: {class: linear, kwargs: {device: "cuda:0"}}
- match: {role: experts}
  replace: {class: experts}
)");
  EXPECT_EQ(plan.findings(),
            "r.yaml:7: warning: the rule is never applied: all 2 modules it matches are matched "
            "first by line 2\n");
  const Placement& experts = plan.at("model.layers.3.mlp.experts");
  EXPECT_EQ(experts.rule, nullptr);
  EXPECT_EQ(experts.decode.device(), kCpu);
  EXPECT_EQ(experts.decode.op->name, "cpu.experts");
  EXPECT_EQ(experts.prefill.op->name, "cuda.experts");
  EXPECT_EQ(experts.prefill.device(), kGpu1);
  EXPECT_EQ(plan.at("model.layers.3.mlp.shared_experts.up_proj").decode.device(), kCpu);
  EXPECT_EQ(plan.at("model.layers.3.self_attn.o_proj").decode.device(), kGpu0);
}

TEST(Plan, RootCanBeReplaced) {
  const Case plan =
      on_gpus("- match: {name: ^$}\n  replace: {class: model, kwargs: {device: cpu}}\n");
  EXPECT_EQ(plan.findings(), "");
  EXPECT_EQ(plan.line(""), 1);
  EXPECT_EQ(plan.at("").decode.device(), kCpu);
  EXPECT_EQ(plan.line("model"), 0);
}

TEST(Plan, PhasesHaveTheirOwnDevices) {
  const Case plan = on_gpus(R"(
- match: {name: q_a_proj}
  replace: {kwargs: {device: cpu, prefill_device: "cuda:1", out_device: cuda}}
- match: {name: q_b_proj}
  replace: {kwargs: {generate_device: cpu}}
- match: {name: kv_b_proj}
  replace: {kwargs: {prefill_device: cpu}}
- match: {name: o_proj}
  replace: {class: cpu.linear}
)");
  EXPECT_EQ(plan.findings(), "");
  const Placement& a = plan.at("model.layers.0.self_attn.q_a_proj");
  EXPECT_EQ(a.decode.device(), kCpu);
  EXPECT_EQ(a.prefill.device(), kGpu1);
  EXPECT_EQ(a.out_device, kGpu0);
  EXPECT_EQ(a.decode.op->name, "cpu.linear");
  EXPECT_EQ(a.prefill.op->name, "cuda.linear");
  const Placement& b = plan.at("model.layers.0.self_attn.q_b_proj");
  EXPECT_EQ(b.prefill.device(), kCpu);
  EXPECT_EQ(b.out_device, kCpu);
  const Placement& kv = plan.at("model.layers.0.self_attn.kv_b_proj");
  EXPECT_EQ(kv.decode.device(), kGpu0);
  EXPECT_EQ(kv.prefill.device(), kCpu);
  const Placement& o = plan.at("model.layers.0.self_attn.o_proj");
  EXPECT_EQ(o.decode.device(), kCpu);
  EXPECT_EQ(o.prefill.op->name, "cpu.linear");
}

TEST(Plan, ResolvesKTransformersOpNames) {
  const Case plan = on_gpus(R"(
- match: {role: experts}
  replace:
    class: ktransformers.operators.experts.KTransformersExperts
    kwargs:
      prefill_device: "cuda:1"
      prefill_op: "KExpertsTorch"
      generate_device: "cpu"
      generate_op: "KExpertsCPU"
      out_device: "cuda:0"
  recursive: False
- match: {name: ^lm_head}
  replace: {class: KTransformersLinear, kwargs: {generate_op: KLinearMarlin, prefill_op: None}}
- match: {name: o_proj}
  replace: {class: KTransformersLinear, kwargs: {generate_op: KLinearCPUInfer, prefill_op: VLinearMarlin}}
- match: {name: q_a_proj}
  replace: {class: linear, kwargs: {generate_device: cpu, generate_op: cpu.linear, prefill_op: cuda.linear}}
)");
  EXPECT_EQ(plan.findings(), "");
  const Placement& experts = plan.at("model.layers.4.mlp.experts");
  EXPECT_EQ(experts.decode.op->name, "cpu.experts");
  EXPECT_EQ(experts.prefill.op->name, "cuda.experts");
  EXPECT_EQ(experts.out_device, kGpu0);
  const Placement& head = plan.at("lm_head");
  EXPECT_EQ(head.decode.device(), kGpu0);
  EXPECT_EQ(head.prefill.op, head.decode.op);
  EXPECT_EQ(head.prefill.device(), head.decode.device());
  const Placement& o = plan.at("model.layers.0.self_attn.o_proj");
  EXPECT_EQ(o.decode.device(), kCpu);
  EXPECT_EQ(o.prefill.device(), kGpu0);
  EXPECT_EQ(plan.at("model.layers.0.self_attn.q_a_proj").prefill.op->name, "cuda.linear");
}

TEST(Plan, LinearRulesMatchRoutersOfClassLinear) {
  const Case plan(testing::mixtral(2), cpu_registry(), R"(
- match: {class: torch.nn.Linear}
  replace: {class: KTransformersLinear, kwargs: {generate_op: KLinearTorch}}
)",
                  {});
  EXPECT_EQ(plan.findings(), "");
  EXPECT_EQ(plan.at("model.layers.0.block_sparse_moe.gate").decode.op->name, "cpu.router");
}

TEST(Plan, TransferMapIsChecked) {
  const Case plan = on_gpus(R"(
- match: {name: "^model$"}
  replace:
    class: ktransformers.operators.models.KDeepseekV2Model
    kwargs: {per_layer_prefill_intput_threshold: 0, transfer_map: {3: "cuda:1", 9: cpu}}
- match: {layers: 4}
  replace: {kwargs: {device: "cuda:1"}}
)");
  EXPECT_EQ(plan.result.plan.transfer_map, (std::map<std::int64_t, Device>{{3, kGpu1}}));
  EXPECT_EQ(plan.findings(),
            "r.yaml:5: warning: transfer_map names layer 9, the model has 5 layers\n"
            "r.yaml:5: warning: transfer_map moves the hidden states to cuda:1 but attention runs "
            "on cuda:0 (at model.layers.3.self_attn)\n");
  EXPECT_EQ(
      on_gpus("- match: {role: norm}\n  replace: {kwargs: {transfer_map: {1: cpu}}}").findings(),
      "r.yaml:2: error: transfer_map is a kwarg of model, the module is norm (at "
      "model.layers.0.self_attn.q_a_layernorm and 20 more)\n");
}

// Experts on the CPU in decode and on a GPU in prefill, with a threshold in the rule of the model.
std::string streamed_rules(const std::string& threshold, const std::string& experts_kwargs = "") {
  return str("- match: {name: \"^model$\"}\n  replace: {class: KDeepseekV2Model, kwargs: ",
             "{per_layer_prefill_intput_threshold: ", threshold, "}}\n",
             "- match: {role: experts}\n  replace: {class: KTransformersExperts, kwargs: ",
             "{generate_device: cpu, prefill_device: \"cuda:0\"", experts_kwargs, "}}\n");
}

TEST(Plan, PrefillThresholdOfTheModelIsStreamFrom) {
  const auto from = [](const Case& plan) {
    return stream_from(plan.at("model.layers.4.mlp.experts"));
  };
  const Case set = on_gpus(streamed_rules("1000"));
  EXPECT_EQ(set.findings(), "");
  EXPECT_EQ(from(set), 1000);
  EXPECT_EQ(stream_from(set.result.plan), 1000);
  EXPECT_EQ(set.at("model.layers.4.mlp.experts").kwargs.at("stream_from"), "1000");
  EXPECT_EQ(from(on_gpus(streamed_rules("0"))), 256);
  EXPECT_EQ(from(on_gpus(streamed_rules("1000", ", stream_from: 7"))), 7);
  EXPECT_EQ(from(on_gpus(streamed_rules("1000", ", prefill_op: None"))), 0);
}

TEST(Plan, PrefillThresholdIsChecked) {
  for (const char* value : {"-1", "many", "1.5"}) {
    EXPECT_EQ(on_gpus(streamed_rules(value)).findings(),
              str("r.yaml:2: error: per_layer_prefill_intput_threshold is '", value,
                  "', expected 0 or an integer from 1 to 65536\n"));
  }
  EXPECT_EQ(on_gpus(streamed_rules("1000", ", prefill_op: None")).findings(),
            "r.yaml:2: warning: per_layer_prefill_intput_threshold: 1000 has no effect: no experts "
            "decode on the CPU and prefill on a GPU\n");
}

TEST(Plan, PlanOnlyUsesOperatorsThatThisBuildLacks) {
  const std::string rules = R"(
- match: {role: linear}
  replace: {class: linear, kwargs: {device: "cuda:1", precision: f32}}
- match: {name: "^model$"}
  replace: {class: model, kwargs: {device: cpu}}
)";
  const Case plan(testing::deepseek_v3(5), cpu_registry(), rules,
                  {.num_gpus = 2, .plan_only = true});
  EXPECT_EQ(plan.findings(), "");
  EXPECT_EQ(plan.at("lm_head").decode.op->name, "cuda.linear");
  EXPECT_EQ(plan.at("lm_head").decode.device(), kGpu1);
  // No operator of GPUs supports the params of this test's attention.
  EXPECT_EQ(plan.at("model.layers.0.self_attn").decode.op, nullptr);
  const Case here(testing::deepseek_v3(5), cpu_registry(), rules, {.num_gpus = 2});
  EXPECT_EQ(here.result.findings.at(0).text,
            "no operator for role linear on cuda in this build (available: cpu.linear) (at "
            "model.layers.0.self_attn.q_a_proj and 40 more)");
}

TEST(Plan, PlanOnlyReportsWhatGpusHaveNoOperatorFor) {
  Blueprint model;
  model.root.role = ops::Role::Attention;
  model.root.params = ops::HyperConnectionParams{};  // that no attention of a GPU has
  const Case plan(model, ops::builtin_operators(),
                  "- match: {name: ''}\n  replace: {class: default, kwargs: {device: cuda}}",
                  {.num_gpus = 1, .plan_only = true});
  EXPECT_EQ(plan.result.findings.at(0).text,
            "no operator for role attention on cuda in this build (available: cpu.attention, "
            "cpu.mla, cpu.delta_net, cpu.compressed_attention) (at the root)");
}

TEST(Plan, KwargsMustBeDeclaredByTheOperator) {
  ops::Registry registry = cpu_registry();
  ops::OperatorInfo info;
  info.name = "cpu.experts_amx";
  info.role = ops::Role::Experts;
  info.kwargs.push_back({.key = "backend"});
  info.kwargs.push_back({.key = "threads"});
  registry.add(info);
  const Case plan(testing::deepseek_v3(5), std::move(registry), R"(
- match: {layers: 3, role: experts}
  replace: {class: cpu.experts_amx, kwargs: {backend: mine, threads: 8}}
- match: {role: experts}
  replace: {class: experts, kwargs: {backend: AMXInt8, threads: 8}}
- match: {role: attention}
  replace: {class: attention, kwargs: {absorb_for_prefill: True, backend: llamafile}}
)",
                  {});
  EXPECT_EQ(
      plan.findings(),
      "r.yaml:5: error: unknown kwarg \"threads\" of cpu.experts (known: device, "
      "generate_device, prefill_device, out_device, generate_op, prefill_op, backend, defer) (at "
      "model.layers.4.mlp.experts)\n"
      "r.yaml:5: warning: backend: AMXInt8 has no effect: cpu.experts does not support it\n"
      "r.yaml:7: error: backend is a kwarg of experts, the module is attention (at "
      "model.layers.0.self_attn and 4 more)\n"
      "r.yaml:7: warning: absorb_for_prefill: true has no effect: cpu.attention does not "
      "support it\n");
  EXPECT_EQ(plan.at("model.layers.3.mlp.experts").kwargs.at("threads"), "8");
}

TEST(Plan, WeightTypesMustBeAccepted) {
  ops::Registry registry;
  ops::OperatorInfo info;
  info.name = "cpu.embedding";
  info.role = ops::Role::Embedding;
  info.accepts = [](DType type) { return type == DType::F32; };
  registry.add(info);
  const Case plan(testing::deepseek_v3(5), std::move(registry), "[]", {});
  EXPECT_EQ(plan.result.findings.at(0).text,
            "cpu.embedding does not support BF16 weights (at model.embed_tokens)");
  EXPECT_EQ(plan.result.findings.at(0).where, "r.yaml");
}

ModuleSpec module_of(const std::string& name, ops::Role role) {
  ModuleSpec module;
  module.name = name;
  module.class_name = "Module";
  module.role = role;
  return module;
}

// A model of one module.
Blueprint model_of(const ModuleSpec& module) {
  Blueprint blueprint;
  blueprint.root.role = ops::Role::Model;
  blueprint.root.children = {module};
  return blueprint;
}

TEST(Plan, TablesOfIdsMayHaveAnyType) {
  const auto findings_of = [](const ModuleSpec& module) {
    ops::Registry registry;
    ops::OperatorInfo info;
    info.name = "cpu.router";
    info.role = ops::Role::Router;
    info.accepts = [](DType type) { return type == DType::BF16; };
    registry.add(info);
    return Case(model_of(module), std::move(registry), "[]", {}).findings();
  };
  ModuleSpec gate = module_of("gate", ops::Role::Router);
  gate.weights = {{.name = "gate.weight", .shape = {4, 8}},
                  {.name = "gate.tid2eid", .shape = {16, 2}, .dtype = DType::I64}};
  EXPECT_EQ(findings_of(gate), "");
  gate.weights.front().dtype = DType::I64;
  EXPECT_EQ(findings_of(gate),
            "r.yaml: error: cpu.router does not support I64 weights (at gate)\n");
}

TEST(Plan, CompressorsAreWithTheirAttention) {
  ModuleSpec attention = module_of("attn", ops::Role::Attention);
  attention.children = {module_of("attn.compressor", ops::Role::Compressor)};
  const auto findings_of = [&](const std::string& rules) {
    ops::Registry registry = full_registry();
    for (const DeviceType type : {DeviceType::Cpu, DeviceType::Cuda}) {
      ops::OperatorInfo info;
      info.name = type == DeviceType::Cpu ? "cpu.compressor" : "cuda.compressor";
      info.role = ops::Role::Compressor;
      info.device = type;
      registry.add(info);
    }
    return Case(model_of(attention), std::move(registry), rules, {.num_gpus = 2}).findings();
  };
  EXPECT_EQ(findings_of("[]"), "");
  for (const char* key : {"device", "prefill_device"}) {
    EXPECT_EQ(findings_of(str("- {match: {role: compressor}, replace: {class: default, kwargs: {",
                              key, ": cpu}}}\n")),
              "r.yaml:1: error: the compressor is on cpu but its attention runs on cuda:0 (at "
              "attn)\n")
        << key;
  }
}

TEST(Plan, OperatorsMustSupportTheModule) {
  const auto registry = [] {
    ops::Registry operators;
    for (const bool is_mla : {false, true}) {
      ops::OperatorInfo info;
      info.name = is_mla ? "cpu.mla" : "cpu.attention";
      info.role = ops::Role::Attention;
      info.fits = [is_mla](const ops::Params& params) {
        return std::holds_alternative<ops::MlaParams>(params) == is_mla;
      };
      operators.add(info);
    }
    return operators;
  };
  Blueprint model;
  model.root.role = ops::Role::Attention;
  model.root.params = ops::MlaParams{};
  const Case supported(model, registry(), "[]", {});
  EXPECT_EQ(supported.at("").decode.op->name, "cpu.mla");
  const Case unsupported(model, registry(),
                         "- match: {name: ''}\n  replace: {class: cpu.attention}", {});
  EXPECT_EQ(unsupported.findings(),
            "r.yaml:2: error: cpu.attention does not support this kind of attention (at the "
            "root)\n");
}

struct InvalidRule {
  const char* replace;
  const char* finding;

  friend std::ostream& operator<<(std::ostream& out, const InvalidRule& invalid) {
    return out << invalid.replace;
  }
};

class InvalidPlan : public ::testing::TestWithParam<InvalidRule> {};

TEST_P(InvalidPlan, IsReportedWithItsLine) {
  const Case plan =
      on_gpus(str("- match: {name: ^lm_head}\n  replace:\n    ", GetParam().replace, "\n"));
  EXPECT_EQ(plan.findings(), str("r.yaml:", GetParam().finding, "\n"));
  EXPECT_FALSE(plan.result.ok());
}

INSTANTIATE_TEST_SUITE_P(
    Resolving,
    InvalidPlan,
    ::testing::Values(
        InvalidRule{
            "class: cuda.fancy",
            "3: error: no operator \"cuda.fancy\" in this build (use \"default\", a role, a "
            "KTransformers class or one of cpu.embedding, cpu.norm, cpu.linear, cpu.rope, "
            "cpu.attention, cpu.indexer, cpu.kv_cache, cpu.mlp, cpu.moe, cpu.router, cpu.experts, "
            "cuda.embedding, cuda.norm, cuda.linear, cuda.rope, cuda.attention, cuda.indexer, "
            "cuda.kv_cache, "
            "cuda.mlp, cuda.moe, cuda.router, cuda.experts)"},
        InvalidRule{"class: npu.linear",
                    "3: error: no operator \"npu.linear\" in this build (linear: cpu.linear, "
                    "cuda.linear)"},
        InvalidRule{
            "class: ktransformers.operators.experts.KTransformersExperts",
            "3: error: ktransformers.operators.experts.KTransformersExperts replaces experts, "
            "the module is linear (Linear) (at lm_head)"},
        InvalidRule{
            "class: ktransformers.operators.ascend.ascend_linear.KTransformersLinearW8A8A2",
            "3: error: ktransformers.operators.ascend.ascend_linear.KTransformersLinearW8A8A2 "
            "needs npu, which this build does not support (supported: cpu, cuda)"},
        InvalidRule{"kwargs: {device: xpu}",
                    "3: error: device xpu is not supported by this build (supported: cpu, cuda)"},
        InvalidRule{"kwargs: {device: gpu}",
                    "3: error: unknown device \"gpu\" (known: cpu, cuda, cuda:0, cuda:1, …)"},
        InvalidRule{
            "kwargs: {device: cuda:3}",
            "3: error: 1 rule places modules on cuda:3, but this machine has 2 GPUs (cuda:0 to "
            "cuda:1): change the device, or plan for another machine with --gpus 4 --vram 24G"},
        InvalidRule{
            "kwargs: {generate_op: KLinearIPEXLLM}",
            "3: error: KLinearIPEXLLM needs xpu, which this build does not support (supported: "
            "cpu, cuda)"},
        InvalidRule{
            "kwargs: {generate_op: KExpertsCPU}",
            "3: error: KExpertsCPU is an operator for experts, the module is linear (Linear) (at "
            "lm_head)"},
        InvalidRule{"kwargs: {generate_op: KLinearMarlin, device: cpu}",
                    "3: error: KLinearMarlin runs on cuda, generate_device is cpu (at lm_head)"},
        InvalidRule{
            "kwargs: {generate_op: None}",
            "3: error: generate_op: None leaves the module without an operator (at lm_head)"},
        InvalidRule{
            "kwargs: {prefill_op: Fancy}",
            "3: error: prefill_op: no operator \"Fancy\" in this build (linear: cpu.linear, "
            "cuda.linear; known names: KLinearMarlin, VLinearMarlin, KLinearFP8, KLinearQ8, "
            "KLinearTorch, KLinearCPUInfer)"},
        InvalidRule{"{class: cpu.linear, kwargs: {prefill_device: cuda}}",
                    "3: error: cpu.linear runs on cpu, prefill_device is cuda:0 (at lm_head)"},
        InvalidRule{
            "kwargs: {speed: 11}",
            "3: error: unknown kwarg \"speed\" of cuda.linear (known: device, generate_device, "
            "prefill_device, out_device, generate_op, prefill_op) (at lm_head)"}));

TEST(Plan, WarnsAboutRulesWithoutEffect) {
  const Case plan = on_cpu(R"(
- match: {class: MixtralAttention}
  replace: {class: attention}
- match: {name: "^model\\.layers\\.[0-2]\\."}
  replace: {class: default}
- match: {name: "^model\\.layers\\."}
  replace: {class: default}
- match: {layers: 1-4, role: linear}
  replace: {class: linear}
- match: {name: "^model\\.layers\\."}
  replace: {class: default}
)");
  EXPECT_EQ(plan.findings(),
            "r.yaml:2: warning: the rule matches no module of this model\n"
            "r.yaml:8: warning: the rule is never applied: all 32 modules it matches are matched "
            "first by lines 4, 6\n"
            "r.yaml:10: warning: the rule is never applied: it has the same match as the rule at "
            "line 6\n");
  EXPECT_TRUE(plan.result.ok());
}

TEST(Plan, CatastrophicPatternsAreErrors) {
  const Case plan = on_cpu("- match: {name: \"^([a-z._0-9]+)+[A-Z]$\"}\n  replace: {}\n");
  EXPECT_FALSE(plan.result.ok());
  EXPECT_EQ(plan.result.findings.size(), 1U) << plan.findings();
}

TEST(Plan, BrokenRulesMatchNothing) {
  std::vector<Finding> findings;
  const RuleFile file = parse_rules("- match: {name: \"(\"}\n  replace: {}\n", "r.yaml", findings);
  EXPECT_EQ(findings.size(), 1U);
  const Blueprint blueprint = testing::mixtral(1);
  const ops::Registry registry = cpu_registry();
  EXPECT_EQ(findings_text(make_plan(blueprint, file, registry, {}).findings), "");
}

}  // namespace
}  // namespace graft::plan
