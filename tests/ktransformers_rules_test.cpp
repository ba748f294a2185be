// KTransformers' rule files run: golden checkpoints on test devices against the CPU alone. Experts
// that decode on the CPU and prefill on a GPU are streamed and loaded once.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/operators.h"
#include "graft/models/build/shapes.h"
#include "graft/models/weights/weights.h"
#include "graft/packing/packer.h"
#include "graft/testing/device.h"
#include "graft/testing/ktransformers_run.h"
#include "graft/testing/near_logits.h"
#include "graft/testing/shared_data.h"

namespace graft::models {
namespace {

namespace fs = std::filesystem;
using ops::testing::test_expert_counts;
using testing::logits_of_all_passes;

class PlacedModel : public testing::PlacedModel {
 public:
  PlacedModel(const fs::path& folder, const std::string& rules)
      : testing::PlacedModel(
            folder, rules, ops::testing::add_test_devices, testing::kKTransformersGpus) {}
};

// absorb_for_prefill changes the order of operations, so the CPU alone has it too.
std::string cpu_only(bool sets_absorb) {
  const std::string absorb = sets_absorb ? ", absorb_for_prefill: false" : "";
  return str("- {match: {role: attention}, replace: {class: default, kwargs: {device: cpu", absorb,
             "}}}\n- {match: {name: \".*\"}, replace: {class: default, kwargs: {device: cpu}}}\n");
}

std::string rules_for_golden(const KTransformersFile& file) {
  return ktransformers_rules(file, testing::kGoldenLayers);
}

void expect_runs(const KTransformersFile& file, const std::string& rules) {
  const fs::path folder = golden_checkpoint(file.checkpoint);
  PlacedModel here(folder, cpu_only(file.sets_absorb));
  ASSERT_TRUE(here.ok()) << here.findings();
  PlacedModel placed(folder, rules);
  ASSERT_TRUE(placed.ok()) << placed.findings();
  const auto want = logits_of_all_passes(here.model(), folder);
  test_expert_counts() = {};
  const auto got = logits_of_all_passes(placed.model(), folder);
  const bool is_streamed = plan::stream_from(placed.plan()) > 0;
  // Results of streamed experts are added to those of the CPU: the last bits differ.
  if (is_streamed) {
    testing::expect_near(got, want);
  } else {
    EXPECT_EQ(got, want);
  }
  EXPECT_EQ(test_expert_counts().streamed_rows > 0, is_streamed);
}

class KTransformersRules : public ::testing::TestWithParam<KTransformersFile> {};

TEST_P(KTransformersRules, RunAsOnTheCpu) {
  expect_runs(GetParam(), rules_for_golden(GetParam()));
  EXPECT_EQ(ops::testing::test_memory().num_blocks(), 0U);
}

// The layer numbers as published, for all layers of the large models.
TEST_P(KTransformersRules, PlaceEveryLayerOfThePublishedModel) {
  const KTransformersFile& file = GetParam();
  const plan::Blueprint blueprint = make_blueprint(shape_config(file.config));
  ops::Registry registry = ops::builtin_operators();
  ops::testing::add_test_devices(registry);
  std::vector<plan::Finding> findings;
  const plan::RuleFile rules = plan::parse_rules(ktransformers_rules(file), "r.yaml", findings);
  const plan::PlanResult planned =
      plan::make_plan(blueprint, rules, registry, {.num_gpus = testing::kKTransformersGpus});
  EXPECT_TRUE(planned.ok()) << plan::findings_text(planned.findings);
  for (std::int64_t layer = 0; layer < blueprint.num_layers; ++layer) {
    std::string device = "cuda:0";
    for (const LayerSplit& split : file.splits)
      if (split.first <= layer) device = split.device;
    for (const plan::Placement& placement : planned.plan.placements) {
      const plan::ModuleSpec& module = *placement.module;
      if (module.layer != layer || module.role != ops::Role::Attention) continue;
      EXPECT_EQ(to_string(placement.decode.device()), device) << module.name;
    }
    EXPECT_EQ(to_string(plan::layer_device(planned.plan, layer, ops::Phase::Prefill)), device)
        << layer;
  }
}

// Counts how often each projection of each module is read.
class CountingWeights final : public ops::WeightProvider {
 public:
  explicit CountingWeights(ops::WeightProvider& weights) : weights_(weights) {}
  ops::Weight get(std::string_view name) override { return weights_.get(name); }
  bool contains(std::string_view name) override { return weights_.contains(name); }
  std::vector<ops::Weight> experts(std::string_view experts, std::string_view projection) override {
    ++reads_[str(experts, ".", projection)];
    return weights_.experts(experts, projection);
  }
  packing::Packer* packer() override { return weights_.packer(); }
  const std::map<std::string, int>& reads() const { return reads_; }

 private:
  ops::WeightProvider& weights_;
  std::map<std::string, int> reads_;
};

TEST_P(KTransformersRules, LoadExpertsOnce) {
  const PlacedModel placed(golden_checkpoint(GetParam().checkpoint), rules_for_golden(GetParam()));
  ASSERT_TRUE(placed.ok()) << placed.findings();
  ThreadPool pool(1);
  packing::Packer packer(&pool, nullptr);
  for (packing::Packer* used : {&packer, static_cast<packing::Packer*>(nullptr)}) {
    CheckpointWeights checkpoint(placed.checkpoint(), used);
    CountingWeights weights(checkpoint);
    const OperatorTree operators(placed.plan());
    for (const auto& op : operators.all())
      op->load(weights);
    std::size_t num_modules = 0;
    for (const plan::Placement& placement : placed.plan().placements)
      num_modules += placement.module->role == ops::Role::Experts ? 1 : 0;
    EXPECT_EQ(weights.reads().size(), 3 * num_modules);
    for (const auto& [name, count] : weights.reads())
      EXPECT_EQ(count, 1) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Files,
                         KTransformersRules,
                         ::testing::ValuesIn(ktransformers_files().begin(),
                                             ktransformers_files().end()),
                         [](const auto& test) { return testing::test_name_of(test.param); });

// The threshold that the files set to 0, KTransformers' "off" and graft's default.
TEST(KTransformersPrefillThreshold, SetsTheLengthFromWhichExpertsAreStreamed) {
  const KTransformersFile& file = ktransformers_files().front();
  const fs::path folder = golden_checkpoint(file.checkpoint);
  const TokenIds prompt = read_reference_prompts(folder / "reference.safetensors").front();
  const auto num_tokens = static_cast<std::int64_t>(prompt.size());
  const auto streamed_rows = [&](std::int64_t threshold) {
    std::string rules = rules_for_golden(file);
    const std::string key = "per_layer_prefill_intput_threshold: ";
    rules.replace(rules.find(key), key.size() + 1, key + std::to_string(threshold));
    PlacedModel placed(folder, rules);
    test_expert_counts() = {};
    run_prompts(placed.model(), {&prompt, 1});
    return test_expert_counts().streamed_rows;
  };
  constexpr std::int64_t kExpertLayers = 2;
  EXPECT_EQ(streamed_rows(0), 0);
  EXPECT_EQ(streamed_rows(4 * num_tokens + 1), 0);  // the CPU computes short prompts alone
  EXPECT_EQ(streamed_rows(num_tokens), kExpertLayers * num_tokens);
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The files as KTransformers publishes them (archive/ktransformers/optimize/optimize_rules), which
// are not part of this repository. Their layer numbers are those of the large models.
TEST(KTransformersPublishedRules, Run) {
  const char* root = std::getenv("GRAFT_KTRANSFORMERS_RULES");
  if (root == nullptr) GTEST_SKIP() << "GRAFT_KTRANSFORMERS_RULES is not set to the folder";
  std::set<std::string> names;
  for (const KTransformersFile& file : ktransformers_files()) {
    SCOPED_TRACE(file.name);
    names.insert(file.name);
    const fs::path path = fs::path(root) / (file.name + ".yaml");
    ASSERT_TRUE(fs::exists(path));
    expect_runs(file, read_text(path));
  }
  for (const UnsupportedKTransformersFile& file : unsupported_ktransformers_files()) {
    SCOPED_TRACE(file.name);
    names.emplace(file.name);
    EXPECT_TRUE(fs::exists(fs::path(root) / str(file.name, ".yaml")));
  }
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = fs::relative(entry.path(), root).replace_extension().string();
    EXPECT_TRUE(names.contains(name)) << name << " is in no table";
  }
}

}  // namespace
}  // namespace graft::models
