// Compares with values computed by hand.

#include "graft/perf/work.h"

#include <gtest/gtest.h>

#include "graft/perf/achieved.h"

namespace graft::perf {
namespace {

plan::ModuleSpec module_of(const std::string& name,
                           ops::Role role,
                           std::vector<std::int64_t> shape) {
  plan::ModuleSpec module;
  module.name = name;
  module.role = role;
  module.weights = {{.name = name + ".weight", .shape = std::move(shape), .dtype = DType::BF16}};
  return module;
}

Work work_of(const plan::ModuleSpec& module, const PassSize& pass) {
  plan::Placement placement;
  placement.module = &module;
  plan::Plan plan;
  plan.placements = {placement};
  return pass_work(plan, pass);
}

TEST(Work, SequencesShareWeightsButNotArithmetic) {
  const plan::ModuleSpec linear = module_of("up", ops::Role::Linear, {100, 10});
  const Work one = work_of(linear, decode_pass(1, 0));
  EXPECT_EQ(one.weight_bytes, 2000);
  EXPECT_EQ(one.weight_flops, 2000);
  const Work eight = work_of(linear, decode_pass(8, 0));
  EXPECT_EQ(eight.weight_bytes, 2000);
  EXPECT_EQ(eight.weight_flops, 8 * 2000);
}

TEST(Work, PrefillRunsTheHeadForTheLastTokenOnly) {
  const plan::ModuleSpec head = module_of("lm_head", ops::Role::Linear, {100, 10});
  EXPECT_EQ(work_of(head, prefill_pass(64)).weight_flops, 2000);
  EXPECT_EQ(work_of(head, decode_pass(64, 0)).weight_flops, 64 * 2000);
}

TEST(Work, TiedHeadReadsTheWholeEmbedding) {
  const plan::ModuleSpec embedding = module_of("embed_tokens", ops::Role::Embedding, {100, 10});
  plan::ModuleSpec head = module_of("lm_head", ops::Role::Linear, {100, 10});
  head.weights.clear();
  plan::Plan plan;
  plan.placements.resize(2);
  plan.placements[0].module = &embedding;
  plan.placements[1].module = &head;
  // The lookup reads one row of 20 bytes.
  EXPECT_EQ(pass_work(plan, decode_pass(1, 0)).bytes(), 20 + 2000);
  EXPECT_EQ(pass_work(plan, decode_pass(1, 0)).flops(), 2000);
}

TEST(Work, TokensReadTheExpertsTheyAreRoutedTo) {
  plan::ModuleSpec experts = module_of("experts", ops::Role::Experts, {4, 10, 10});
  experts.params = ops::ExpertsParams{.num_experts = 4, .top_k = 1};
  EXPECT_DOUBLE_EQ(work_of(experts, decode_pass(1, 0)).weight_bytes, 800 / 4.0);
  // Two tokens share an expert with probability 1/4: 7/16 of the experts are read on average.
  EXPECT_DOUBLE_EQ(work_of(experts, decode_pass(2, 0)).weight_bytes, 800 * 7 / 16.0);
  EXPECT_DOUBLE_EQ(work_of(experts, decode_pass(2, 0)).weight_flops, 2 * 200);
}

TEST(Work, ExpertsHaveTheRowsOfTheirTokens) {
  plan::ModuleSpec experts = module_of("experts", ops::Role::Experts, {4, 10, 10});
  experts.params = ops::ExpertsParams{.num_experts = 4, .top_k = 1};
  plan::Plan plan;
  plan.placements.resize(1);
  plan.placements[0].module = &experts;
  const auto rows = [&](const PassSize& pass) {
    return module_work(plan, plan.placements[0], pass).rows;
  };
  EXPECT_DOUBLE_EQ(rows(decode_pass(1, 0)), 1);
  // Two tokens use 7/4 of the experts on average.
  EXPECT_DOUBLE_EQ(rows(decode_pass(2, 0)), 2 / 1.75);
  EXPECT_NEAR(rows(prefill_pass(400)), 100, 1e-9);
}

// The products of few rows reach a part of a GPU's peak that does not depend on the rows; those of
// many rows reach more, grouped ones less.
TEST(Work, SharesOfThePeakGrowWithTheRows) {
  const auto share = [](double rows, bool is_grouped) {
    return gpu_product_share({.rows = rows, .is_grouped = is_grouped});
  };
  EXPECT_EQ(share(1, false), share(64, false));
  EXPECT_LT(share(64, false), share(512, false));
  EXPECT_LT(share(512, false), share(4096, false));
  EXPECT_LT(share(4096, false), 1);
  EXPECT_LT(share(4096, true), share(4096, false));
  EXPECT_LT(share(8, true), share(256, true));
}

TEST(Work, EachSequenceReadsItsOwnContext) {
  plan::ModuleSpec cache;
  cache.name = "attn.kv_cache";
  cache.role = ops::Role::KvCache;
  cache.params = ops::KvCacheParams{.key_size = 10, .value_size = 10};
  EXPECT_EQ(work_of(cache, decode_pass(3, 100)).bytes(), 3 * 100 * 40);
  EXPECT_EQ(work_of(cache, prefill_pass(100)).bytes(), 50 * 40);
}

plan::PhasePlacement on(Device device) {
  plan::PhasePlacement phase;
  phase.shares = {{.device = device}};
  return phase;
}

// Absorbed: 2 * 8 + 3 products per head, key and query. Expanded: 4 + 3 + 5.
TEST(Work, LatentAttentionIsExpandedForPrefillOnGpus) {
  plan::ModuleSpec mla;
  mla.name = "attn";
  mla.role = ops::Role::Attention;
  mla.params = ops::MlaParams{.num_heads = 2,
                              .kv_lora_rank = 8,
                              .qk_nope_head_dim = 4,
                              .qk_rope_head_dim = 3,
                              .v_head_dim = 5};
  const auto flops = [&](Device device, const ops::Kwargs& kwargs, const PassSize& pass) {
    plan::Plan plan;
    plan.placements.resize(1);
    plan.placements[0].module = &mla;
    plan.placements[0].decode = plan.placements[0].prefill = on(device);
    plan.placements[0].kwargs = kwargs;
    return pass_work(plan, pass).context_flops / (2.0 * 2 * pass.rows * pass.context);
  };
  const Device gpu = {DeviceType::Cuda, 0};
  EXPECT_EQ(flops(gpu, {}, decode_pass(1, 100)), 19);
  EXPECT_EQ(flops(gpu, {}, prefill_pass(100)), 12);
  EXPECT_EQ(flops(gpu, {{"absorb_for_prefill", "true"}}, prefill_pass(100)), 19);
  EXPECT_EQ(flops(kCpu, {}, prefill_pass(100)), 19);
  EXPECT_EQ(flops(kCpu, {{"absorb_for_prefill", "false"}}, prefill_pass(100)), 12);
  EXPECT_EQ(flops(kCpu, {{"absorb_for_prefill", "false"}}, decode_pass(1, 100)), 19);
  EXPECT_EQ(flops(kCpu, {{"absorb", "false"}}, decode_pass(1, 100)), 12);
  // An indexer that selects fewer entries than there are: latents, never expanded.
  std::get<ops::MlaParams>(mla.params).index_top_k = 100;
  EXPECT_EQ(flops(gpu, {}, prefill_pass(100)), 12);
  EXPECT_EQ(flops(gpu, {}, prefill_pass(200)), 19);
}

TEST(Work, PassIsTheSumOfItsModules) {
  const plan::ModuleSpec linear = module_of("up", ops::Role::Linear, {100, 10});
  plan::Placement placement;
  placement.module = &linear;
  plan::Plan plan;
  plan.placements = {placement, placement};
  EXPECT_EQ(pass_work(plan, decode_pass(1, 0)).bytes(), 4000);
  EXPECT_EQ(pass_work(plan, decode_pass(1, 0)).flops(), 4000);
}

}  // namespace
}  // namespace graft::perf
