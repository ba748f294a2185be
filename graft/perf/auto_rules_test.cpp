// The placements that machines of many shapes get, with the sizes of published models.

#include "graft/perf/auto_rules.h"

#include <string>

#include <gtest/gtest.h>

#include "graft/perf/gpu_experts.h"
#include "graft/testing/units.h"

namespace graft::perf {
namespace {

// Sizes per layer in MiB.
struct ModelSize {
  std::int64_t num_layers = 1;
  std::int64_t num_dense_layers = 0;  // without experts
  std::int64_t dense_mib = 0;         // attention, norms, shared experts or dense MLP
  std::int64_t experts_mib = 0;
  std::int64_t num_experts = 0;
  std::int64_t kv_values = 0;  // per token, K and V together
  std::int64_t head_mib = 0;   // the embedding has the same size
  std::int64_t max_context = 131072;
};

// Q4_K_M: 14 GiB on the GPU, 366 GiB of experts.
constexpr ModelSize kDeepseekV3 = {.num_layers = 61,
                                   .num_dense_layers = 3,
                                   .dense_mib = 208,
                                   .experts_mib = 6460,
                                   .num_experts = 256,
                                   .kv_values = 576,
                                   .head_mib = 700,
                                   .max_context = 163840};
// Q4_K_M: 0.6 GiB of attention, 16.5 GiB of experts.
constexpr ModelSize kQwen30B = {.num_layers = 48,
                                .dense_mib = 13,
                                .experts_mib = 352,
                                .num_experts = 128,
                                .kv_values = 1024,
                                .head_mib = 240,
                                .max_context = 40960};
// Q4_K_M: 38 GiB.
constexpr ModelSize kLlama70B = {
    .num_layers = 80, .dense_mib = 470, .kv_values = 2048, .head_mib = 800};

plan::ModuleSpec module(const std::string& name, ops::Role role, std::int64_t layer) {
  plan::ModuleSpec spec;
  spec.name = name;
  spec.class_name = "Module";
  spec.role = role;
  spec.layer = layer;
  return spec;
}

plan::ModuleSpec weighted(const std::string& name,
                          ops::Role role,
                          std::int64_t layer,
                          std::int64_t mib) {
  plan::ModuleSpec spec = module(name, role, layer);
  spec.weights = {{.name = name + ".weight", .shape = {mib, 1 << 20}, .dtype = DType::I8}};
  return spec;
}

plan::ModuleSpec layer_of(const ModelSize& size, std::int64_t i) {
  const std::string name = "model.layers." + std::to_string(i);
  plan::ModuleSpec layer = module(name, ops::Role::Layer, i);
  plan::ModuleSpec norm = module(name + ".input_layernorm", ops::Role::Norm, i);
  norm.params = ops::NormParams{.size = 4096};
  plan::ModuleSpec attention = module(name + ".self_attn", ops::Role::Attention, i);
  attention.params =
      ops::AttentionParams{.num_heads = 32, .num_key_value_heads = 8, .head_dim = 128};
  plan::ModuleSpec cache = module(name + ".self_attn.kv_cache", ops::Role::KvCache, i);
  cache.params =
      ops::KvCacheParams{.key_size = size.kv_values / 2, .value_size = size.kv_values / 2};
  attention.children = {weighted(name + ".self_attn.o_proj", ops::Role::Linear, i, size.dense_mib),
                        cache};
  layer.children = {norm, attention};
  if (size.num_experts > 0 && i >= size.num_dense_layers) {
    plan::ModuleSpec moe = module(name + ".mlp", ops::Role::Moe, i);
    plan::ModuleSpec experts =
        weighted(name + ".mlp.experts", ops::Role::Experts, i, size.experts_mib);
    experts.params = ops::ExpertsParams{.num_experts = size.num_experts,
                                        .top_k = 8,
                                        .hidden_size = 4096,
                                        .intermediate_size = 1024};
    moe.children = {experts};
    layer.children.push_back(moe);
  }
  return layer;
}

plan::Blueprint model_of(const ModelSize& size) {
  plan::Blueprint blueprint;
  blueprint.model_name = "model";
  blueprint.num_layers = size.num_layers;
  blueprint.max_context = size.max_context;
  blueprint.vocab_size = 128'000;
  blueprint.root = module("", ops::Role::Model, -1);
  plan::ModuleSpec model = module("model", ops::Role::Model, -1);
  model.children.push_back(weighted("model.embed_tokens", ops::Role::Embedding, -1, size.head_mib));
  for (std::int64_t i = 0; i < size.num_layers; ++i)
    model.children.push_back(layer_of(size, i));
  model.children.push_back(module("model.norm", ops::Role::Norm, -1));
  blueprint.root.children = {model, weighted("lm_head", ops::Role::Linear, -1, size.head_mib)};
  return blueprint;
}

MachineFigures machine_of(std::uint64_t dram_gib, const std::vector<std::uint64_t>& vram_gib) {
  MachineFigures machine;
  machine.cpu = {
      .threads = 16, .dram_bytes = dram_gib * kGiB, .read_bytes_per_s = 100e9, .flops = 1e12};
  for (const std::uint64_t gib : vram_gib) {
    machine.gpus.push_back({.name = "gpu",
                            .vram_bytes = gib * kGiB,
                            .read_bytes_per_s = 900e9,
                            .flops = 100e12,
                            .pcie_bytes_per_s = 25e9});
  }
  return machine;
}

struct Placed {
  AutoRules rules;
  AutoLayout layout;
  Estimate estimate;
};

// The rules as a plan; they have no findings and are the same when they are made again.
Placed place(const ModelSize& size, const MachineFigures& machine, std::int64_t context = 0) {
  const plan::Blueprint blueprint = model_of(size);
  const Workload load = {.context = context, .prefill_tokens = 0};
  Placed placed = {.rules = auto_rules(blueprint, machine, load),
                   .layout = choose_layout(blueprint, machine, load),
                   .estimate = {}};
  EXPECT_EQ(placed.rules.text, auto_rules(blueprint, machine, load).text);
  std::vector<plan::Finding> findings;
  const plan::RuleFile file = plan::parse_rules(placed.rules.text, "auto", findings);
  const ops::Registry registry = ops::builtin_operators();
  plan::PlanResult result =
      plan::make_plan(blueprint, file, registry,
                      {.num_gpus = static_cast<int>(machine.gpus.size()), .plan_only = true});
  EXPECT_EQ(findings_text(findings) + findings_text(result.findings), "") << placed.rules.text;
  placed.estimate =
      estimate(result.plan, machine,
               {.context = placed.layout.context, .prefill_tokens = placed.layout.prefill_tokens});
  return placed;
}

const MemoryUse& gpu_of(const Placed& placed, std::int32_t index = 0) {
  return placed.estimate.devices.at({DeviceType::Cuda, index});
}

TEST(AutoRules, SmallModelsAreOnOneGpu) {
  const Placed placed = place(kQwen30B, machine_of(64, {141}));
  EXPECT_EQ(placed.rules.summary, "everything on cuda:0");
  EXPECT_EQ(placed.layout.context, 32768);
  EXPECT_EQ(placed.estimate.devices.at(kCpu).weights, 0U);
  EXPECT_TRUE(placed.estimate.fits());
  // Also where the first GPU is in use, or the second has nothing to add.
  EXPECT_EQ(place(kQwen30B, machine_of(64, {4, 48})).rules.summary, "everything on cuda:1");
  EXPECT_EQ(place(kQwen30B, machine_of(64, {48, 48})).rules.summary, "everything on cuda:0");
}

TEST(AutoRules, SeveralGpusShareWhatFitsTogether) {
  const Placed placed = place(kLlama70B, machine_of(64, {32, 32}));
  EXPECT_EQ(placed.rules.summary, "everything on cuda:0 and cuda:1");
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  EXPECT_EQ(placed.estimate.devices.at(kCpu).weights, 0U);
  EXPECT_EQ(placed.layout.gpus[0].last, 39);
  EXPECT_EQ(placed.layout.gpus[1].first, 40);
}

TEST(AutoRules, DeepseekV3On24And384GiB) {
  const Placed placed = place(kDeepseekV3, machine_of(384, {24}));
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  EXPECT_TRUE(placed.layout.head_on_gpu);
  const GpuLayers& gpu = placed.layout.gpus[0];
  EXPECT_EQ(gpu.first, 0);
  EXPECT_EQ(gpu.last, 60);
  EXPECT_TRUE(gpu.streams);
  EXPECT_GE(gpu.copies, 1);
  EXPECT_LE(gpu.copies, 6);
  EXPECT_EQ(placed.layout.prefill_tokens, kStreamedTokens);
  EXPECT_EQ(placed.rules.summary, "experts on the CPU, " + std::to_string(gpu.copies) +
                                      " of 256 per layer also on cuda:0");
  EXPECT_NE(placed.rules.text.find("layers: 3-60 }"), std::string::npos) << placed.rules.text;
  // All experts are in host memory.
  EXPECT_GT(placed.estimate.devices.at(kCpu).weights, 58 * 6460ULL << 20U);
  // The rest of the memory is in use.
  EXPECT_GT(gpu_of(placed).total(), 19 * kGiB);
}

TEST(AutoRules, CopiesFillSeveralGpus) {
  const Placed one = place(kDeepseekV3, machine_of(384, {24}));
  const Placed two = place(kDeepseekV3, machine_of(384, {24, 24}));
  EXPECT_TRUE(two.estimate.fits()) << shortage_text(two.estimate);
  EXPECT_EQ(two.layout.gpus[0].last, 29);
  EXPECT_EQ(two.layout.gpus[1].first, 30);
  EXPECT_GT(two.layout.gpus[0].copies, 2 * one.layout.gpus[0].copies);
  EXPECT_GT(two.layout.gpus[1].copies, 2 * one.layout.gpus[0].copies);
  EXPECT_TRUE(two.rules.summary.ends_with("on cuda:1")) << two.rules.summary;
}

TEST(AutoRules, Qwen30BOn8And32GiB) {
  const Placed placed = place(kQwen30B, machine_of(32, {8}));
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  EXPECT_GE(placed.layout.gpus[0].copies, 8) << placed.rules.text;
  EXPECT_EQ(placed.layout.gpus[0].last, 47);
  // A longer context leaves room for fewer copies.
  const Placed longer = place(kQwen30B, machine_of(32, {8}), 36000);
  EXPECT_TRUE(longer.estimate.fits());
  EXPECT_LT(longer.layout.gpus[0].copies, placed.layout.gpus[0].copies);
}

// 14 GiB hold all layers but no buffers for streaming. Prompts are several times faster with fewer
// layers and buffers, unless the CPU is as fast as PCIe.
TEST(AutoRules, FewerLayersWhereStreamingSavesMore) {
  MachineFigures machine = machine_of(400, {13});
  machine.cpu.flops = 1e11;
  const auto layouts =
      possible_layouts(model_of(kDeepseekV3), machine, {.context = 4096, .prefill_tokens = 0});
  ASSERT_EQ(layouts.size(), 3U);
  EXPECT_FALSE(layouts[0].gpus[0].streams);
  EXPECT_TRUE(layouts[1].gpus[0].streams);
  EXPECT_LT(layouts[1].gpus[0].last, layouts[0].gpus[0].last);
  EXPECT_TRUE(layouts[2].gpus[0].empty());
  const Placed placed = place(kDeepseekV3, machine, 4096);
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  EXPECT_TRUE(placed.layout.gpus[0].streams) << placed.rules.summary;
  machine.cpu.flops = 1e14;
  machine.cpu.read_bytes_per_s = 1e12;
  const Placed fast = place(kDeepseekV3, machine, 4096);
  EXPECT_FALSE(fast.layout.gpus[0].streams) << fast.rules.summary;
  // What fits nowhere is placed on the GPUs as far as it goes: it may run from disk.
  const Placed large = place(kDeepseekV3, machine_of(256, {24}));
  EXPECT_FALSE(large.estimate.fits());
  EXPECT_EQ(large.layout.gpus[0].last, 60);
}

// 16.5 GiB of experts do not fit into 12 GiB of host memory: whole layers are on the GPU only.
TEST(AutoRules, ExpertsThatHostMemoryLacksAreOnTheGpuOnly) {
  const Placed placed = place(kQwen30B, machine_of(12, {16}));
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  const GpuLayers& gpu = placed.layout.gpus[0];
  EXPECT_EQ(gpu.first_experts, 0);
  EXPECT_GE(gpu.last_experts, 14);
  EXPECT_LT(gpu.last_experts, 40);
  EXPECT_NE(placed.rules.summary.find(", those of layers 0-"), std::string::npos)
      << placed.rules.summary;
}

TEST(AutoRules, DenseLayersFillTheGpu) {
  const Placed placed = place(kLlama70B, machine_of(64, {24}));
  EXPECT_TRUE(placed.estimate.fits()) << shortage_text(placed.estimate);
  const GpuLayers& gpu = placed.layout.gpus[0];
  EXPECT_GT(gpu.last, 35);
  EXPECT_LT(gpu.last, 60);
  EXPECT_FALSE(placed.layout.head_on_gpu);
  EXPECT_EQ(placed.rules.summary,
            "layers 0-" + std::to_string(gpu.last) + " on cuda:0, the others on the CPU");
  const Placed two = place(kLlama70B, machine_of(64, {12, 12}));
  EXPECT_TRUE(two.estimate.fits()) << shortage_text(two.estimate);
  EXPECT_GT(two.layout.gpus[1].last, two.layout.gpus[0].last + 10);
}

TEST(AutoRules, WithoutAGpuEverythingIsOnTheCpu) {
  const Placed none = place(kQwen30B, machine_of(64, {}));
  EXPECT_EQ(none.rules.summary, "everything on the CPU");
  EXPECT_TRUE(none.estimate.fits());
  // Neither a layer nor the workspace fits.
  const Placed tiny = place(kLlama70B, machine_of(64, {1}));
  EXPECT_EQ(tiny.rules.summary, "everything on the CPU");
  EXPECT_TRUE(tiny.estimate.fits());
}

TEST(AutoRules, ModelsThatGpusCannotRunAreOnTheCpu) {
  plan::Blueprint blueprint = model_of(kQwen30B);
  const MachineFigures machine = machine_of(64, {80});
  EXPECT_EQ(auto_rules(blueprint, machine, {}).summary, "everything on cuda:0");
  // No operator of the role has such params.
  plan::ModuleSpec attention = module("model.attention", ops::Role::Attention, -1);
  attention.params = ops::HyperConnectionParams{.hidden_size = 4096, .mult = 4};
  blueprint.root.children.front().children.push_back(attention);
  EXPECT_EQ(auto_rules(blueprint, machine, {}).summary, "everything on the CPU");
}

TEST(AutoRules, ShortensTheContextForLayersOnTheGpu) {
  // 5 GiB of weights and 256 KiB per token.
  const ModelSize size = {.num_layers = 64, .dense_mib = 72, .kv_values = 2048, .head_mib = 128};
  EXPECT_EQ(place(size, machine_of(64, {24})).layout.context, 32768);
  const Placed small = place(size, machine_of(64, {10}));
  EXPECT_EQ(small.rules.summary, "everything on cuda:0");
  EXPECT_LT(small.layout.context, 32768);
  EXPECT_GE(small.layout.context, 4096);
  const Placed fixed = place(size, machine_of(64, {10}), 32768);
  EXPECT_EQ(fixed.layout.context, 32768);
  EXPECT_FALSE(fixed.layout.is_whole);
}

// Whatever fits into the machine is placed so that it fits.
TEST(AutoRules, FitOnManyMachines) {
  for (const ModelSize& size : {kDeepseekV3, kQwen30B, kLlama70B}) {
    for (const std::uint64_t vram : {2, 6, 8, 11, 12, 16, 24, 32, 48, 80, 141}) {
      for (const std::size_t num_gpus : {0, 1, 2, 3, 8}) {
        const MachineFigures machine = machine_of(512, std::vector<std::uint64_t>(num_gpus, vram));
        const Placed placed = place(size, machine);
        EXPECT_TRUE(placed.estimate.fits())
            << vram << " GiB x " << num_gpus << ": " << shortage_text(placed.estimate);
        for (const GpuLayers& gpu : placed.layout.gpus)
          EXPECT_LE(gpu.copies, size.num_experts);
      }
    }
  }
}

}  // namespace
}  // namespace graft::perf
