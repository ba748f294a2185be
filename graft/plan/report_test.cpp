#include "graft/plan/report.h"

#include <regex>

#include <gtest/gtest.h>

#include "graft/testing/plans.h"

namespace graft::plan {
namespace {

struct Planned {
  Blueprint blueprint;
  ops::Registry registry;
  RuleFile file;
  PlanResult result;
};

void plan(Planned& planned, const std::string& rules, Machine machine) {
  std::vector<Finding> findings;
  planned.registry = testing::full_registry();
  planned.file = parse_rules(rules, "r.yaml", findings);
  planned.result = make_plan(planned.blueprint, planned.file, planned.registry, machine);
  EXPECT_EQ(findings_text(planned.result.findings), "");
}

constexpr const char* kRules = R"(- match: {role: experts}
  replace: {class: experts, kwargs: {device: cpu, out_device: "cuda:0"}}
- match: {layers: 2, role: norm}
  replace: {class: norm, kwargs: {generate_device: cpu, prefill_device: "cuda:1"}}
)";

TEST(Report, FoldsEqualLayers) {
  Planned planned;
  planned.blueprint = testing::mixtral(4);
  plan(planned, kRules, {.num_gpus = 2});
  const std::string text = plan_text(planned.result.plan);
  // Column widths depend on the widest cell: compare without padding.
  const std::string squeezed = std::regex_replace(text, std::regex(" +"), " ");
  for (const char* line : {"model.layers.0-1.block_sparse_moe.experts cpu.experts cpu → cuda:0 "
                           "12.5 MiB line 1",
                           "model.layers.2.input_layernorm cpu.norm, prefill cuda.norm "
                           "cpu, prefill cuda:1 1.0 KiB line 3",
                           "model.layers.3.self_attn.rotary_emb cuda.rope cuda:0 default",
                           "weights: cpu 25.0 MiB, cuda:0 1.4 MiB"}) {
    EXPECT_NE(squeezed.find(str("\n", line, "\n")), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("model.layers.1."), std::string::npos);
}

TEST(Report, KeepsNumbersOtherThanTheLayer) {
  Planned planned;
  planned.blueprint.root.name = "";
  ModuleSpec module;
  module.name = "model7.layers.7.q7.7";
  module.role = ops::Role::Rope;
  module.layer = 7;
  planned.blueprint.root.role = ops::Role::Model;
  planned.blueprint.root.children.push_back(module);
  module.name = "model7.layers.8.q7.7";
  module.layer = 8;
  planned.blueprint.root.children.push_back(module);
  plan(planned, "[]", {});
  EXPECT_NE(plan_text(planned.result.plan).find("\nmodel7.layers.7-8.q7.7  cpu.rope"),
            std::string::npos)
      << plan_text(planned.result.plan);
}

TEST(Report, JsonSortsTypesByBytes) {
  Planned planned;
  planned.blueprint.root.role = ops::Role::Experts;
  planned.blueprint.root.weights = {{.name = "gate", .shape = {2, 256}, .dtype = DType::Q4_K},
                                    {.name = "up", .shape = {2, 256}, .dtype = DType::Q4_K},
                                    {.name = "down", .shape = {9, 256}, .dtype = DType::Q6_K}};
  plan(planned, "[]", {});
  EXPECT_EQ(plan_json(planned.result.plan)["placements"][0]["dtype"], "Q6_K, Q4_K");
}

TEST(Report, JsonHoldsEveryPlacement) {
  Planned planned;
  planned.blueprint = testing::mixtral(3);
  plan(planned, kRules, {.num_gpus = 2});
  const Json json = plan_json(planned.result.plan);
  EXPECT_EQ(json["family"], "mixtral");
  EXPECT_EQ(json["placements"].size(), planned.result.plan.placements.size());
  EXPECT_EQ(json["weight_bytes"]["cpu"], weight_bytes_by_device(planned.result.plan).at(0).bytes);
  for (const Json& row : json["placements"]) {
    if (row["module"] != "model.layers.1.block_sparse_moe.experts") continue;
    EXPECT_EQ(row["generate_op"], "cpu.experts");
    EXPECT_EQ(row["out_device"], "cuda:0");
    EXPECT_EQ(row["line"], 1);
    EXPECT_EQ(row["role"], "experts");
    EXPECT_EQ(row["dtype"], "BF16");
  }
  EXPECT_EQ(json["placements"][0]["generate_op"], Json());
  EXPECT_EQ(json["placements"][0]["dtype"], Json()) << "the root has no weights of its own";
  const std::vector<Finding> findings = {{.where = "r.yaml:3", .line = 3, .text = "odd"}};
  EXPECT_EQ(findings_json(findings)[0]["kind"], "error");
}

}  // namespace
}  // namespace graft::plan
