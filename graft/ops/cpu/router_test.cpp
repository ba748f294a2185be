#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/error.h"
#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using Method = RouterParams::Method;
using Scoring = RouterParams::Scoring;

struct Choice {
  std::vector<std::int32_t> ids;
  Floats weights;
};

// The router's weight is the identity, so x is the list of logits.
Choice route(RouterParams params, Floats logits, const Floats& bias = {}) {
  const auto num_experts = static_cast<std::int64_t>(logits.size());
  params.hidden_size = num_experts;
  params.num_experts = num_experts;
  Floats identity(logits.size() * logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    identity[i * logits.size() + i] = 1.0F;
  TestModel model;
  model.weights.add("gate.weight", {num_experts, num_experts}, identity);
  if (!bias.empty()) model.weights.add("gate.e_score_correction_bias", {num_experts}, bias);
  auto& router = model.add<Router>("cpu.router", "gate", params);
  ThreadPool pool(1);
  Workspace workspace;
  const Batch batch;
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  Choice choice = {.ids = std::vector<std::int32_t>(static_cast<std::size_t>(params.top_k)),
                   .weights = Floats(static_cast<std::size_t>(params.top_k))};
  router.forward(view(logits, 1, num_experts),
                 {.expert_ids = {choice.ids.data(), DType::I32, {1, params.top_k}},
                  .weights = view(choice.weights, 1, params.top_k)},
                 pass);
  return choice;
}

using Ids = std::vector<std::int32_t>;

TEST(RouterCpu, GreedySelectsTheTopSoftmaxScores) {
  const Floats logits = Random().floats(21, 3.0F);
  const Doubles scores = softmax(widen(logits));
  Ids order(21);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(4);
  const Choice plain = route({.top_k = 4, .scaling_factor = 2.0F}, logits);
  const Choice normalized = route({.top_k = 4, .normalize = true}, logits);
  EXPECT_EQ(plain.ids, order);
  EXPECT_EQ(normalized.ids, order);
  double sum = 0;
  for (const auto id : order)
    sum += scores[static_cast<std::size_t>(id)];
  for (std::size_t k = 0; k < 4; ++k) {
    const double score = scores[static_cast<std::size_t>(order[k])];
    EXPECT_NEAR(plain.weights[k], 2.0 * score, 1e-6);
    EXPECT_NEAR(normalized.weights[k], score / sum, 1e-6);
  }
}

TEST(RouterCpu, TopKOfManyExpertsMatchesASort) {
  Random random;
  for (int round = 0; round < 20; ++round) {
    Floats logits;
    for (int i = 0; i < 256; ++i)
      logits.push_back(static_cast<float>(random.below(40)) * 0.25F);  // many equal
    Ids order(256);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](auto a, auto b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    order.resize(8);
    EXPECT_EQ(route({.top_k = 8, .scoring = Scoring::Sigmoid}, logits).ids, order);
  }
}

TEST(RouterCpu, TiesPreferTheLowerIndex) {
  EXPECT_EQ(route({.top_k = 3}, {1, 2, 2, 0, 2}).ids, (Ids{1, 2, 4}));
  EXPECT_EQ(
      route({.top_k = 2, .method = Method::GroupLimitedGreedy, .num_groups = 3}, {1, 1, 1, 1, 1, 1})
          .ids,
      (Ids{0, 1}));
  EXPECT_EQ(
      route({.top_k = 2, .scoring = Scoring::Sigmoid, .method = Method::NoauxTc, .num_groups = 2},
            {0, 0, 0, 0})
          .ids,
      (Ids{0, 1}));
}

TEST(RouterCpu, GroupLimitedGreedyRanksGroupsByTheirBest) {
  // Groups of two: bests 5, 4, 3. The second best expert overall, 4.9, is alone in its group.
  const Floats logits = {5.0F, 0.0F, 4.9F, 0.1F, 3.0F, 2.9F};
  const RouterParams params = {.top_k = 3,
                               .method = Method::GroupLimitedGreedy,
                               .num_groups = 3,
                               .top_k_groups = 2,
                               .scaling_factor = 16.0F};
  const Choice choice = route(params, logits);
  EXPECT_EQ(choice.ids, (Ids{0, 2, 3}));
  EXPECT_NEAR(choice.weights[2], 16.0 * softmax(widen(logits))[3], 1e-6);
}

TEST(RouterCpu, NoauxTcRanksGroupsByTheirBestTwoAndChoosesWithTheBias) {
  const Floats logits = {2.0F, -9.0F, 1.0F, 1.0F, 0.0F, 0.5F};
  const Floats bias = {0, 0, 0, 0, 0, 0.3F};
  // Scores with bias: .881 .000 | .731 .731 | .500 .922; pairs .881, 1.462, 1.422.
  RouterParams params = {.top_k = 3,
                         .scoring = Scoring::Sigmoid,
                         .method = Method::NoauxTc,
                         .num_groups = 3,
                         .top_k_groups = 2,
                         .normalize = true,
                         .scaling_factor = 2.5F};
  const Choice choice = route(params, logits, bias);
  EXPECT_EQ(choice.ids, (Ids{5, 2, 3}));
  const auto sigmoid = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
  const double sum = sigmoid(0.5) + 2 * sigmoid(1.0);
  EXPECT_NEAR(choice.weights[0], 2.5 * sigmoid(0.5) / sum, 1e-6);
  EXPECT_NEAR(choice.weights[1], 2.5 * sigmoid(1.0) / sum, 1e-6);
}

TEST(RouterCpu, ExcludedGroupsAreNeverSelectedEvenBelowZero) {
  // With strong negative biases every eligible score is below 0, the score of a masked group.
  const Floats bias = {-5, -5, -6, -6};
  const RouterParams params = {
      .top_k = 2, .scoring = Scoring::Sigmoid, .method = Method::NoauxTc, .num_groups = 2};
  EXPECT_EQ(route(params, {0, 0, 0, 0}, bias).ids, (Ids{0, 1}));
}

TEST(RouterCpu, RejectsInconsistentParams) {
  EXPECT_THROW(route({.top_k = 5}, {1, 2, 3, 4}), Error);
  EXPECT_THROW(route({.top_k = 1, .num_groups = 3}, {1, 2, 3, 4}), Error);
}

TEST(RouterCpu, ScoresWithTheRootOfSoftplus) {
  const Choice choice = route({.top_k = 2, .scoring = Scoring::SqrtSoftplus}, {-3.0F, 40.0F, 1.0F});
  EXPECT_EQ(choice.ids, (Ids{1, 2}));
  EXPECT_NEAR(choice.weights[0], std::sqrt(40.0), 1e-5);
  EXPECT_NEAR(choice.weights[1], std::sqrt(std::log1p(std::exp(1.0))), 1e-6);
}

// A router of three experts for a vocabulary of two tokens; `ids` are of I64.
Choice look_up(const std::vector<std::int64_t>& ids, std::int32_t token) {
  TestModel model;
  Floats logits = {0.0F, 1.0F, 2.0F};
  model.weights.add("gate.weight", {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  Weight table = {.name = "gate.tid2eid", .dtype = DType::I64, .shape = {2, 2}};
  table.data = reinterpret_cast<const std::byte*>(ids.data());
  model.weights.add(table);
  auto& router = model.add<Router>("cpu.router", "gate",
                                   RouterParams{.hidden_size = 3,
                                                .num_experts = 3,
                                                .top_k = 2,
                                                .scoring = Scoring::Sigmoid,
                                                .normalize = true,
                                                .hash_vocab_size = 2});
  ThreadPool pool(1);
  Workspace workspace;
  Batch batch;
  batch.token_ids = {token};
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  Choice choice = {.ids = std::vector<std::int32_t>(2), .weights = Floats(2)};
  router.forward(view(logits, 1, 3),
                 {.expert_ids = {choice.ids.data(), DType::I32, {1, 2}},
                  .weights = view(choice.weights, 1, 2)},
                 pass);
  return choice;
}

TEST(RouterCpu, FindsTheExpertsOfATokenInATable) {
  const Choice choice = look_up({1, 2, 2, 0}, 1);
  EXPECT_EQ(choice.ids, (Ids{2, 0}));
  const double first = 1.0 / (1.0 + std::exp(-2.0));
  EXPECT_NEAR(choice.weights[0], first / (first + 0.5), 1e-6);
  EXPECT_NEAR(choice.weights[1], 0.5 / (first + 0.5), 1e-6);
  EXPECT_THROW(look_up({1, 3, 2, 0}, 1), Error);
}

}  // namespace
}  // namespace graft::ops::cpu
