// What `graft rules check` finds in the kwargs of rules, with the operators of this build and of
// GPUs that are not there.

#include "graft/plan/checks/check_kwargs.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/plan/plan.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

constexpr Machine kNoGpu = {};
constexpr Machine kOneGpu = {.num_gpus = 1, .plan_only = true};
constexpr Machine kTwoGpus = {.num_gpus = 2, .plan_only = true};

void set_params(ModuleSpec& module, std::int64_t head_size) {
  if (module.role == ops::Role::Attention) module.params = ops::MlaParams{};
  if (module.role == ops::Role::KvCache)
    module.params = ops::KvCacheParams{.key_size = head_size, .value_size = head_size};
  for (ModuleSpec& child : module.children)
    set_params(child, head_size);
}

std::string check(const std::string& rules, const Machine& machine, std::int64_t head_size = 64) {
  Blueprint blueprint = testing::deepseek_v3(5);
  set_params(blueprint.root, head_size);
  const ops::Registry registry = ops::builtin_operators();
  std::vector<Finding> findings;
  const RuleFile file = parse_rules(rules, "r.yaml", findings);
  EXPECT_EQ(findings_text(findings), "");
  return findings_text(make_plan(blueprint, file, registry, machine).findings);
}

std::string rule(std::string_view role, std::string_view kwargs) {
  return str("- match: {role: ", role, "}\n  replace: {class: default, kwargs: {", kwargs, "}}\n");
}

TEST(CheckKwargs, ValidValuesHaveNoFindings) {
  EXPECT_EQ(
      check(rule("kv_cache", "dtype: q8_0, block_tokens: 32") + rule("linear", "repack: False") +
                rule("attention", "absorb: true, absorb_for_prefill: False"),
            kNoGpu),
      "");
  EXPECT_EQ(
      check(rule("kv_cache", "dtype: bf16, block_tokens: 32") + rule("linear", "precision: f32") +
                rule("attention", "precision: fast, absorb_for_prefill: True"),
            kOneGpu),
      "");
}

TEST(CheckKwargs, KeysAndValuesAreOneCache) {
  const auto rules = [](std::string_view keys, std::string_view values) {
    return str("- match: {name: '\\.k_cache$'}\n  replace: {class: default, kwargs: {", keys,
               "}}\n- match: {name: '\\.v_cache$'}\n  replace: {class: default, kwargs: {", values,
               "}}\n");
  };
  EXPECT_EQ(check(rules("quantize: q8_0", "quantize: q8_0"), kNoGpu), "");
  EXPECT_EQ(check(rules("quantize: INT8", "quantize: INT8"), kNoGpu), "");
  EXPECT_EQ(check(rules("quantize: false", "quantize: false"), kOneGpu), "");
  EXPECT_NE(check(rules("quantize: q8_0", "quantize: q4_0"), kNoGpu)
                .find("r.yaml:3: error: keys and values have one cache"),
            std::string::npos);
  EXPECT_NE(check(rule("kv_cache", "quantize: q8_0, dtype: f16"), kNoGpu)
                .find("quantize and dtype: set one of them"),
            std::string::npos);
  EXPECT_NE(check(rule("kv_cache", "quantize: nf4"), kNoGpu).find("nf4"), std::string::npos);
  EXPECT_EQ(check(rule("kv_cache", "quantize: q8_0"), kOneGpu), "");
  const std::string sizes =
      check(rule("kv_cache", "max_cache_size: 4096, chunk_size: 128"), kNoGpu);
  EXPECT_NE(sizes.find("max_cache_size: 4096 has no effect"), std::string::npos) << sizes;
  EXPECT_NE(sizes.find("chunk_size: 128 has no effect"), std::string::npos) << sizes;
  EXPECT_EQ(sizes.find("error"), std::string::npos) << sizes;
}

TEST(CheckKwargs, ValuesOnTheCpu) {
  EXPECT_EQ(check(rule("kv_cache", "dtype: q5_1"), kNoGpu),
            "r.yaml:2: error: cpu.kv_cache: dtype is 'q5_1', expected f32, f16, bf16, fp8, q8_0 or "
            "q4_0 (at model.layers.0.self_attn.kv_cache and 4 more)\n");
  EXPECT_EQ(check(rule("linear", "repack: maybe"), kNoGpu),
            "r.yaml:2: error: cpu.linear: repack is 'maybe', expected true or false (at "
            "model.layers.0.self_attn.q_a_proj and 40 more)\n");
  EXPECT_EQ(check(rule("kv_cache", "block_tokens: -3"), kNoGpu),
            "r.yaml:2: error: cpu.kv_cache: block_tokens is '-3', expected an integer from 1 to "
            "65536 (at model.layers.0.self_attn.kv_cache and 4 more)\n");
}

TEST(CheckKwargs, ValuesThatDoNotSuitTheModel) {
  EXPECT_EQ(check(rule("kv_cache", "dtype: q8_0"), kNoGpu, 80),
            "r.yaml:2: error: cpu.kv_cache: dtype q8_0 has blocks of 32 values, and the head size "
            "80 is not a multiple (at model.layers.0.self_attn.kv_cache and 4 more)\n");
}

TEST(CheckKwargs, GpuExpertsNeedTheCpuAndAGpu) {
  const std::string hybrid = "generate_device: cpu, prefill_device: cuda, gpu_experts: ";
  for (const char* value : {"16", "12%", "auto", "0"})
    EXPECT_EQ(check(rule("experts", hybrid + value), kOneGpu), "") << value;
  EXPECT_EQ(check(rule("experts", hybrid + "some"), kOneGpu),
            "r.yaml:2: error: cuda.experts: gpu_experts is 'some', expected an integer from 0 to "
            "65536, a percentage or auto (at model.layers.3.mlp.experts and 1 more)\n");
  EXPECT_EQ(check(rule("experts", hybrid + "101"), kOneGpu),
            "r.yaml:2: error: cuda.experts: gpu_experts is 101, the module has 100 experts (at "
            "model.layers.3.mlp.experts and 1 more)\n");
  EXPECT_EQ(check(rule("experts", "device: cuda, gpu_experts: 4"), kOneGpu),
            "r.yaml:2: error: gpu_experts needs generate_device: cpu and a GPU as prefill_device; "
            "here decode runs on cuda:0 and prefill on cuda:0 (at model.layers.3.mlp.experts and "
            "1 more)\n");
  EXPECT_EQ(check(rule("experts", "device: cpu, gpu_experts: 4"), kOneGpu),
            "r.yaml:2: error: gpu_experts needs generate_device: cpu and a GPU as prefill_device; "
            "here decode runs on cpu and prefill on cpu (at model.layers.3.mlp.experts and 1 "
            "more)\n");
  EXPECT_EQ(check(rule("moe", "gpu_experts: 4"), kOneGpu),
            "r.yaml:2: error: gpu_experts is a kwarg of experts, the module is moe (at "
            "model.layers.3.mlp and 1 more)\n");
}

TEST(CheckKwargs, GpuOperatorsWithoutADriver) {
  EXPECT_EQ(check(rule("linear", "devcie: cpu"), kOneGpu),
            "r.yaml:2: error: unknown kwarg \"devcie\" of cuda.linear (known: device, "
            "generate_device, prefill_device, out_device, generate_op, prefill_op, precision) (at "
            "model.layers.0.self_attn.q_a_proj and 40 more)\n");
  EXPECT_EQ(check(rule("linear", "precision: fastest"), kOneGpu),
            "r.yaml:2: error: cuda.linear: precision is 'fastest', expected fast or f32 (at "
            "model.layers.0.self_attn.q_a_proj and 40 more)\n");
  EXPECT_EQ(check(rule("kv_cache", "dtype: q5_1"), kOneGpu),
            "r.yaml:2: error: cuda.kv_cache: dtype is 'q5_1', expected f32, f16, bf16, fp8, q8_0 "
            "or q4_0 (at "
            "model.layers.0.self_attn.kv_cache and 4 more)\n");
}

constexpr std::string_view kRunOrPlan =
    ", but this machine has no GPU: run with --device cpu instead of these rules, or plan for "
    "another machine with --gpus ";

TEST(CheckKwargs, RulesForMissingGpusAreChecked) {
  EXPECT_EQ(check(rule("linear", "device: \"cuda:0\", precision: fastest"), kNoGpu),
            str("r.yaml:2: error: cuda.linear: precision is 'fastest', expected fast or f32 (at "
                "model.layers.0.self_attn.q_a_proj and 40 more)\n"
                "r.yaml:2: error: 1 rule places modules on cuda:0",
                kRunOrPlan, "1 --vram 24G\n"));
}

TEST(MissingGpus, AreOneFinding) {
  const std::string rules = rule("linear", "device: \"cuda:0\"") + rule("norm", "device: cuda") +
                            rule("experts", "prefill_device: \"cuda:1\"");
  EXPECT_EQ(check(rules, kNoGpu), str("r.yaml:2: error: 3 rules place modules on cuda:0, cuda:1",
                                      kRunOrPlan, "2 --vram 24G\n"));
  EXPECT_EQ(check(rules, kOneGpu),
            "r.yaml:6: error: 1 rule places modules on cuda:1, but the machine has 1 GPU (cuda:0): "
            "change the device, or plan for another machine with --gpus 2 --vram 24G\n");
  EXPECT_EQ(check(rules, kTwoGpus), "");
}

TEST(MissingGpus, MayBeImpliedByAName) {
  for (const char* replace : {"class: cuda.linear", "kwargs: {generate_op: KLinearMarlin}"}) {
    const std::string rules = str("- match: {name: lm_head}\n  replace: {", replace, "}\n");
    EXPECT_EQ(check(rules, kNoGpu), str("r.yaml:2: error: 1 rule places modules on cuda:0",
                                        kRunOrPlan, "1 --vram 24G\n"));
    EXPECT_EQ(check(rules, kOneGpu), "");
  }
}

TEST(CheckKwargs, OneMistakeIsOneFinding) {
  const std::string found =
      check("- match: {name: \"\"}\n  replace: {kwargs: {devcie: cpu}}\n", kOneGpu);
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << found;
  EXPECT_NE(found.find("unknown kwarg \"devcie\" of model"), std::string::npos) << found;
  EXPECT_NE(found.find("(at the root and "), std::string::npos) << found;
}

TEST(CheckKwargs, AbsorbForPrefillIsTrueOrFalse) {
  for (const char* value : {"True", "False"})
    EXPECT_EQ(check(rule("attention", str("absorb_for_prefill: ", value)), kOneGpu), "");
  EXPECT_EQ(check(rule("attention", "absorb_for_prefill: maybe"), kNoGpu),
            "r.yaml:2: error: cpu.mla: absorb_for_prefill is 'maybe', expected true or false (at "
            "model.layers.0.self_attn and 4 more)\n");
}

TEST(OutDevice, MustBeThatOfTheConsumer) {
  EXPECT_EQ(check(rule("experts", "device: cpu, out_device: \"cuda:0\"") +
                      rule("embedding", "device: cpu, out_device: \"cuda:0\""),
                  kTwoGpus),
            "");
  EXPECT_EQ(check(rule("experts", "device: cpu, out_device: \"cuda:1\""), kTwoGpus),
            "r.yaml:2: warning: out_device: cuda:1 has no effect: a result is copied to the device "
            "of the module that uses it, here cuda:0 (at model.layers.3.mlp.experts and 1 more)\n");
  EXPECT_EQ(check(rule("embedding", "device: cpu, out_device: \"cuda:1\""), kTwoGpus),
            "r.yaml:2: warning: out_device: cuda:1 has no effect: a result is copied to the device "
            "of the module that uses it, here cuda:0 (at model.embed_tokens)\n");
  EXPECT_EQ(check("- match: {name: ^lm_head}\n"
                  "  replace: {kwargs: {device: cpu, out_device: \"cuda:1\"}}\n",
                  kTwoGpus),
            "r.yaml:2: warning: out_device: cuda:1 has no effect: a result is copied to the device "
            "of the module that uses it (at lm_head)\n");
}

}  // namespace
}  // namespace graft::plan
