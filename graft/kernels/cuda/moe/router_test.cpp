#include "graft/kernels/cuda/moe/router.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class RouterKernels : public testing::GpuTest {};

// Indices of the `count` largest values, ties by ascending index.
std::vector<std::size_t> top_indices(const Floats& values, std::int64_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return values[a] > values[b]; });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

double score_of(RouterScoring scoring, double logit, double max) {
  if (scoring == RouterScoring::Sigmoid) return 1 / (1 + std::exp(-logit));
  if (scoring == RouterScoring::SqrtSoftplus) return std::sqrt(std::log1p(std::exp(logit)));
  return std::exp(logit - max);
}

Floats compute_scores(const RouterShape& shape, Floats row) {
  double sum = 0;
  const double max = *std::ranges::max_element(row);
  for (float& value : row) {
    value = static_cast<float>(score_of(shape.scoring, value, max));
    sum += value;
  }
  if (shape.scoring == RouterScoring::Softmax) {
    for (float& value : row)
      value = static_cast<float>(value / sum);
  }
  return row;
}

void mask_groups(const RouterShape& shape, Floats& choice) {
  const auto size = static_cast<std::size_t>(shape.num_experts / shape.num_groups);
  Floats group_scores;
  for (std::size_t g = 0; g < choice.size(); g += size) {
    Floats group(choice.begin() + static_cast<std::ptrdiff_t>(g),
                 choice.begin() + static_cast<std::ptrdiff_t>(g + size));
    std::ranges::sort(group, std::greater<>());
    const bool two = shape.method == RouterMethod::NoauxTc && size > 1;
    group_scores.push_back(two ? group[0] + group[1] : group[0]);
  }
  const std::vector<std::size_t> kept = top_indices(group_scores, shape.top_k_groups);
  const float masked = shape.method == RouterMethod::NoauxTc ? -INFINITY : 0.0F;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    if (std::ranges::find(kept, i / size) == kept.end()) choice[i] = masked;
  }
}

struct Routes {
  std::vector<std::int32_t> ids;
  Floats weights;
};

Routes reference(const RouterShape& shape, const Floats& scores, const Floats& bias) {
  Routes routes;
  const auto experts = static_cast<std::size_t>(shape.num_experts);
  for (std::size_t row = 0; row < scores.size(); row += experts) {
    const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(row);
    const Floats values = compute_scores(shape, {begin, begin + shape.num_experts});
    Floats choice = values;
    for (std::size_t i = 0; i < bias.size(); ++i)
      choice[i] += bias[i];
    if (shape.method != RouterMethod::Greedy) mask_groups(shape, choice);
    double sum = 0;
    const std::vector<std::size_t> chosen = top_indices(choice, shape.top_k);
    for (const std::size_t expert : chosen)
      sum += values[expert];
    for (const std::size_t expert : chosen) {
      routes.ids.push_back(static_cast<std::int32_t>(expert));
      const double weight = shape.normalize ? values[expert] / (sum + 1e-20) : values[expert];
      routes.weights.push_back(static_cast<float>(weight * shape.scaling_factor));
    }
  }
  return routes;
}

void expect_matches_reference(const RouterShape& shape, const Floats& scores, const Floats& bias) {
  const std::int64_t rows = static_cast<std::int64_t>(scores.size()) / shape.num_experts;
  const Routes want = reference(shape, scores, bias);
  const DeviceArray<float> score_data(scores);
  const DeviceArray<float> bias_data(bias);
  const DeviceArray<std::int32_t> ids(want.ids.size());
  const DeviceArray<float> weights(want.weights.size());
  route(shape, score_data.get(), {.bias = bias.empty() ? nullptr : bias_data.get()}, rows,
        ids.get(), weights.get(), nullptr);
  EXPECT_EQ(ids.download(), want.ids);
  EXPECT_LT(relative_error(weights.download(), want.weights), 1e-6);
}

TEST_F(RouterKernels, EveryScoringAndMethod) {
  for (const RouterScoring scoring :
       {RouterScoring::Softmax, RouterScoring::Sigmoid, RouterScoring::SqrtSoftplus}) {
    for (const RouterMethod method :
         {RouterMethod::Greedy, RouterMethod::GroupLimitedGreedy, RouterMethod::NoauxTc}) {
      for (const bool normalize : {false, true}) {
        const RouterShape shape = {.num_experts = 40,
                                   .top_k = 6,
                                   .scoring = scoring,
                                   .method = method,
                                   .num_groups = 8,
                                   .top_k_groups = 3,
                                   .normalize = normalize,
                                   .scaling_factor = 2.5F};
        Random random(41);
        const Floats scores = random.floats(9 * 40, 2.0F);
        expect_matches_reference(shape, scores, {});
        if (method == RouterMethod::NoauxTc)
          expect_matches_reference(shape, scores, random.floats(40));
      }
    }
  }
}

TEST_F(RouterKernels, OddSizes) {
  expect_matches_reference({.num_experts = 1, .top_k = 1}, {0.5F, -3.0F}, {});
  expect_matches_reference({.num_experts = 33, .top_k = 33}, Random(42).floats(3 * 33), {});
  expect_matches_reference({.num_experts = 256,
                            .top_k = 8,
                            .scoring = RouterScoring::Sigmoid,
                            .method = RouterMethod::NoauxTc,
                            .num_groups = 256,
                            .top_k_groups = 100},
                           Random(43).floats(2 * 256), Random(44).floats(256));
  for (const std::int64_t experts : {65, 128, 384, 512, 1000}) {
    expect_matches_reference({.num_experts = experts, .top_k = 8, .normalize = true},
                             Random(45).floats(3 * experts), {});
  }
}

// The table selects, the scores weight.
TEST_F(RouterKernels, TableOfTokens) {
  for (const bool normalize : {false, true}) {
    const RouterShape shape = {.num_experts = 70,
                               .top_k = 3,
                               .scoring = RouterScoring::SqrtSoftplus,
                               .normalize = normalize,
                               .scaling_factor = 1.5F};
    const Floats scores = Random(47).floats(4 * 70, 30.0F);
    const std::vector<std::int32_t> experts = {5, 69, 0, 7, 7, 1, 33, 32, 31};
    const std::vector<std::int32_t> token_ids = {2, 0, 1, 2};
    Routes want;
    for (std::size_t row = 0; row < token_ids.size(); ++row) {
      const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(row) * 70;
      const Floats values = compute_scores(shape, {begin, begin + 70});
      const std::int32_t* own = experts.data() + 3 * token_ids[row];
      double sum = 0;
      for (int k = 0; k < 3; ++k)
        sum += values[static_cast<std::size_t>(own[k])];
      for (int k = 0; k < 3; ++k) {
        want.ids.push_back(own[k]);
        want.weights.push_back(static_cast<float>(values[static_cast<std::size_t>(own[k])] * 1.5 /
                                                  (normalize ? sum : 1.0)));
      }
    }
    const DeviceArray<float> score_data(scores);
    const DeviceArray<std::int32_t> table(experts);
    const DeviceArray<std::int32_t> tokens(token_ids);
    const DeviceArray<std::int32_t> ids(want.ids.size());
    const DeviceArray<float> weights(want.weights.size());
    route(shape, score_data.get(), {.table = table.get(), .token_ids = tokens.get()}, 4, ids.get(),
          weights.get(), nullptr);
    EXPECT_EQ(ids.download(), want.ids);
    EXPECT_LT(relative_error(weights.download(), want.weights), 1e-6);
  }
}

// NaN scores still select valid experts, each once.
TEST_F(RouterKernels, NanScores) {
  const std::int64_t experts = 40;
  const DeviceArray<float> scores(static_cast<std::size_t>(experts));  // NaN
  const DeviceArray<std::int32_t> ids(static_cast<std::size_t>(experts));
  const DeviceArray<float> weights(static_cast<std::size_t>(experts));
  route({.num_experts = experts, .top_k = experts}, scores.get(), {}, 1, ids.get(), weights.get(),
        nullptr);
  std::vector<std::int32_t> want(static_cast<std::size_t>(experts));
  std::iota(want.begin(), want.end(), 0);
  EXPECT_EQ(ids.download(), want);
}

// Ties go to the lower index; top_k may exceed the experts of the selected groups.
TEST_F(RouterKernels, Ties) {
  const Floats equal(64, 0.25F);
  for (const RouterMethod method :
       {RouterMethod::Greedy, RouterMethod::GroupLimitedGreedy, RouterMethod::NoauxTc}) {
    expect_matches_reference(
        {.num_experts = 64, .top_k = 8, .method = method, .num_groups = 8, .top_k_groups = 2},
        equal, {});
    expect_matches_reference(
        {.num_experts = 64, .top_k = 20, .method = method, .num_groups = 8, .top_k_groups = 2},
        equal, {});
  }
  Floats some(64);
  for (std::size_t i = 0; i < some.size(); ++i)
    some[i] = static_cast<float>(i * 7 % 5);
  expect_matches_reference({.num_experts = 64, .top_k = 30}, some, {});
}

}  // namespace
}  // namespace graft::kernels::cuda
