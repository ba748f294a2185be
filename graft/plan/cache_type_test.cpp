#include "graft/plan/cache_type.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

void set_cache_params(ModuleSpec& module, std::int64_t head_size) {
  if (module.role == ops::Role::Attention) module.params = ops::MlaParams{};
  if (module.role == ops::Role::KvCache)
    module.params = ops::KvCacheParams{.key_size = head_size, .value_size = head_size};
  for (ModuleSpec& child : module.children)
    set_cache_params(child, head_size);
}

struct PlannedCaches {
  Blueprint blueprint = testing::deepseek_v3(2);
  ops::Registry registry = ops::builtin_operators();
  RuleFile rules;
  PlanResult result;

  explicit PlannedCaches(const Machine& machine, std::int64_t head_size = 64) {
    set_cache_params(blueprint.root, head_size);
    std::vector<Finding> findings;
    rules = parse_rules(
        "- match: {role: kv_cache}\n  replace: {class: default, kwargs: {dtype: bf16}}\n", "r.yaml",
        findings);
    result = make_plan(blueprint, rules, registry, machine);
    EXPECT_TRUE(result.ok());
  }

  std::string type_of(int layer) const {
    const std::string module = "model.layers." + std::to_string(layer) + ".self_attn.kv_cache";
    return result.plan.at(module).kwargs.at("dtype");
  }
  std::string refusal(const std::string& dtype) {
    try {
      set_cache_type(result.plan, dtype);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST(CacheType, ReplacesTheTypeOfTheRules) {
  PlannedCaches planned({});
  for (const char* none : {"", "auto"}) {
    set_cache_type(planned.result.plan, none);
    EXPECT_EQ(planned.type_of(0), "bf16");
  }
  for (const char* type : {"f32", "f16", "fp8", "q8_0", "q4_0"}) {
    set_cache_type(planned.result.plan, type);
    EXPECT_EQ(planned.type_of(0), type);
    EXPECT_EQ(planned.type_of(1), type);
  }
}

TEST(CacheType, NamesTheDeviceThatLacksIt) {
  PlannedCaches on_gpu({.num_gpus = 1, .plan_only = true});
  for (const char* type : {"f32", "fp8", "q8_0", "q4_0"})
    EXPECT_EQ(on_gpu.refusal(type), "");
  EXPECT_EQ(on_gpu.refusal("q5_1"),
            "KV cache type q5_1 on cuda:0: dtype is 'q5_1', expected f32, f16, bf16, fp8, q8_0 or "
            "q4_0 (at model.layers.0.self_attn.kv_cache)");
  PlannedCaches uneven({}, 80);
  EXPECT_EQ(uneven.refusal("fp8"), "");
  EXPECT_EQ(
      uneven.refusal("q8_0"),
      "KV cache type q8_0 on cpu: dtype q8_0 has blocks of 32 values, and the head size 80 is "
      "not a multiple (at model.layers.0.self_attn.kv_cache)");
}

}  // namespace
}  // namespace graft::plan
