// Every child of a decoder layer, attention, MLA, MLP and MoE, replaced in turn by an operator that
// is not native: the model computes the same bits, and the plan reports the fusions that stopped
// running and no others.

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/models/generate.h"
#include "graft/ops/cpu/packed.h"
#include "graft/plan/checks/lost_fusions.h"
#include "graft/testing/device.h"
#include "graft/testing/forwarding.h"
#include "graft/testing/golden.h"
#include "graft/testing/placement.h"
#include "graft/testing/test_names.h"

#include "tests/program.h"

namespace graft::tests {
namespace {

using models::testing::PlacedModel;

void add_operators(ops::Registry& registry) {
  ops::testing::add_test_devices(registry);
  ops::testing::add_forwarding_operators(registry);
}

std::string everything_on(const std::string& device) {
  return str("- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: \"", device,
             "\"}}}\n");
}

// A child under its name without the layer number, in the layers where it has one operator: a first
// layer with an MLP and others with a MoE block have two children `mlp`.
struct Child {
  const plan::ModuleSpec* module = nullptr;  // of one of the layers
  std::string op;
  std::vector<std::int64_t> layers;

  std::string name() const { return str(module->name_with_layer("N"), " (", op, ")"); }

  std::string replacing_rule(const std::string& device) const {
    std::string pattern;
    for (const char c : module->name_with_layer("[0-9]+"))
      pattern += c == '.' ? "[.]" : std::string(1, c);
    std::string list;
    for (const std::int64_t layer : layers)
      list += str(list.empty() ? "" : ", ", layer);
    return str("- {match: {name: \"^", pattern, "$\", layers: [", list,
               "]}, replace: {class: forwarding.", op, ", kwargs: {device: \"", device, "\"}}}\n");
  }
};

// From the plan, so that a new child needs no change here.
std::vector<Child> children_of(const plan::Plan& plan) {
  std::map<std::pair<std::string, std::string>, Child> found;
  for (const plan::Placement& placement : plan.placements) {
    const plan::ModuleSpec& module = *placement.module;
    if (module.layer < 0 || module.role == ops::Role::Layer) continue;
    const std::string& op = placement.decode.op->name;
    Child& child = found[{module.name_with_layer(""), op}];
    child.module = &module;
    child.op = op;
    child.layers.push_back(module.layer);
  }
  std::vector<Child> children;
  for (auto& [key, child] : found)
    children.push_back(std::move(child));
  return children;
}

// Logits of every position: two prefill chunks and a decode step.
std::vector<float> logits_of(models::Model& model) {
  const models::TokenIds prompt = {5, 17, 250, 3, 99, 42, 7, 301, 12};
  return models::run_prompts(model, {&prompt, 1}, {.chunk = 4}).front().logits;
}

bool is_same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// What ran fused, under the names of the profiler: "model.layers.0.mlp.gate_proj+up_proj".
std::set<std::string> fused_modules(models::Model& model) {
  std::set<std::string> fused;
  for (const auto& [name, entry] : model.profiler()->entries()) {
    if (name.find('+') != std::string::npos) fused.insert(name);
  }
  return fused;
}

std::set<std::string> missing(const std::set<std::string>& before,
                              const std::set<std::string>& after) {
  std::set<std::string> names;
  for (const std::string& name : before) {
    if (!after.contains(name)) names.insert(name);
  }
  return names;
}

std::set<std::string> reported(const plan::Plan& plan) {
  std::set<std::string> names;
  for (const plan::LostFusion& lost : plan::lost_fusions(plan)) {
    std::string name;
    for (const std::string_view child : lost.children)
      name += str(name.empty() ? "" : "+", child);
    names.insert(str(lost.module->name, '.', name));
    EXPECT_EQ(lost.phases.size(), 2U) << lost.name() << ": the CPU fuses in both phases";
  }
  return names;
}

// Attention reads the weight of kv_b_proj and does not call the operator.
void expect_called(const Child& child) {
  const bool is_called = ops::testing::forwarded_calls() > 0;
  EXPECT_EQ(is_called, child.module->last_name() != "kv_b_proj");
}

// Random weights in the shape of a golden checkpoint, in a type that every CPU with AVX2 packs:
// only packed weights are fused.
class ReplacedChildren : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path model() {
    const std::string name = GetParam();
    const std::filesystem::path config =
        std::filesystem::path(GRAFT_SOURCE_DIR) / "tests/golden" / name / "config.json";
    const std::string file = folder_ / (name + ".gguf");
    const Outcome made = run_program({"synth", config.string(), file, "--type", "Q8_0", "-t", "1"});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return file;
  }

 private:
  TempDir folder_;
};

TEST_P(ReplacedChildren, OnTheCpuLoseOnlyTheirFusions) {
  const std::filesystem::path path = model();
  PlacedModel original(path, everything_on("cpu"), add_operators);
  ASSERT_EQ(original.findings(), "");
  original.model().start_profiling();
  const std::vector<float> want = logits_of(original.model());
  const std::set<std::string> fused = fused_modules(original.model());
  EXPECT_TRUE(reported(original.plan()).empty());
  const bool is_packed = path.extension() == ".gguf" && ops::cpu::can_pack(DType::Q8_0, 128);
  EXPECT_TRUE(!is_packed || !fused.empty());
  for (const Child& child : children_of(original.plan())) {
    SCOPED_TRACE(child.name());
    PlacedModel replaced(path, child.replacing_rule("cpu") + everything_on("cpu"), add_operators);
    ASSERT_EQ(replaced.findings(), "");
    ops::testing::forwarded_calls() = 0;
    replaced.model().start_profiling();
    EXPECT_TRUE(is_same(logits_of(replaced.model()), want));
    expect_called(child);
    EXPECT_EQ(reported(replaced.plan()), missing(fused, fused_modules(replaced.model())));
  }
}

// Test devices fuse nothing, so that nothing can be lost.
TEST_P(ReplacedChildren, AreBitIdenticalOnADevice) {
  const std::filesystem::path path = model();
  PlacedModel original(path, everything_on("cuda:0"), add_operators);
  ASSERT_EQ(original.findings(), "");
  const std::vector<float> want = logits_of(original.model());
  for (const Child& child : children_of(original.plan())) {
    SCOPED_TRACE(child.name());
    PlacedModel replaced(path, child.replacing_rule("cuda:0") + everything_on("cuda:0"),
                         add_operators);
    ASSERT_EQ(replaced.findings(), "");
    ops::testing::forwarded_calls() = 0;
    EXPECT_TRUE(is_same(logits_of(replaced.model()), want));
    expect_called(child);
    EXPECT_TRUE(plan::lost_fusions(replaced.plan()).empty());
  }
}

// Attention with bias, with norms of q and k, sandwich norms, MLA with and without a query latent,
// an indexer, and MoE alone, with shared experts, with a gated one and with scaled inputs.
INSTANTIATE_TEST_SUITE_P(Models,
                         ReplacedChildren,
                         testing::Values("qwen2",
                                         "qwen3",
                                         "glm4",
                                         "mixtral",
                                         "qwen2-moe",
                                         "glm4-moe",
                                         "minimax-m2",
                                         "phi3",
                                         "gemma3",
                                         "deepseek-v2-lite",
                                         "deepseek-v3",
                                         "deepseek-v3.2",
                                         "deepseek-v4",
                                         "llama4"),
                         checkpoint_test_name);

}  // namespace
}  // namespace graft::tests
