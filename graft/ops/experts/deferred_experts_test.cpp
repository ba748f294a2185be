#include "graft/ops/experts/deferred_experts.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace graft::ops {
namespace {

// Layers whose expert e returns x + e, for rows of one value.
class DeferredExpertsTest : public ::testing::Test {
 protected:
  using Ids = std::vector<std::int32_t>;
  using Values = std::vector<float>;

  struct Call {
    Ids expert_ids;
    Values x;
    bool operator==(const Call&) const = default;
  };

  // The result of one layer with top_k = ids.size() / x.size().
  Values forward(std::int64_t num_deferred, Values x, Ids ids, Values weights) {
    const auto rows = static_cast<std::int64_t>(x.size());
    const std::int64_t top_k = static_cast<std::int64_t>(ids.size()) / rows;
    Values y(x.size(), -1);
    deferred_.forward(num_deferred, compute(), TensorView(x.data(), DType::F32, {rows, 1}),
                      {.expert_ids = TensorView(ids.data(), DType::I32, {rows, top_k}),
                       .weights = TensorView(weights.data(), DType::F32, {rows, top_k})},
                      TensorView(y.data(), DType::F32, {rows, 1}), pass_);
    return y;
  }

  DeferredExperts::Compute compute() {
    return [this](TensorView x, Routing routing, TensorView y, Pass& /*pass*/) {
      Call call;
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        float sum = 0;
        for (std::int64_t k = 0; k < routing.expert_ids.cols(); ++k) {
          const auto pair = row * routing.expert_ids.cols() + k;
          const std::int32_t expert = routing.expert_ids.as<std::int32_t>()[pair];
          call.expert_ids.push_back(expert);
          if (expert < 0) continue;
          sum += routing.weights.f32()[pair] * (x.f32()[row] + static_cast<float>(expert));
        }
        call.x.push_back(x.f32()[row]);
        y.f32()[row] = sum;
      }
      calls_.push_back(std::move(call));
    };
  }

  Batch batch_;
  ThreadPool pool_{1};
  Workspace workspace_;
  Pass pass_{.batch = batch_, .phase = Phase::Decode, .pool = pool_, .workspace = workspace_};
  DeferredExperts deferred_;
  std::vector<Call> calls_;
};

TEST_F(DeferredExpertsTest, TheLowestWeightsAreAddedInTheNextLayer) {
  // Weight 1 of expert 5 is the lowest of 4, 1, 2.
  EXPECT_EQ(forward(1, {10}, {3, 5, 7}, {4, 1, 2}), Values{4 * 13 + 2 * 17});
  EXPECT_EQ(forward(0, {20}, {0, 1, 2}, {1, 1, 1}), Values{20 + 21 + 22 + 1 * 15});
  EXPECT_EQ(forward(0, {20}, {0, 1, 2}, {1, 1, 1}), Values{20 + 21 + 22}) << "added once";
}

TEST_F(DeferredExpertsTest, LayersDeferAndAdd) {
  EXPECT_EQ(forward(2, {1}, {0, 1, 2}, {1, 2, 3}), Values{3 * 3});
  EXPECT_EQ(forward(2, {2}, {0, 1, 2}, {1, 2, 3}), Values{3 * 4 + 1 * 1 + 2 * 2});
  EXPECT_EQ(forward(0, {3}, {0, 1, 2}, {1, 2, 3}), Values{3 + 8 + 15 + 1 * 2 + 2 * 3});
}

TEST_F(DeferredExpertsTest, TheResultMayReplaceTheInput) {
  Values x = {10};
  Ids ids = {3, 5};
  Values weights = {2, 1};
  const TensorView rows(x.data(), DType::F32, {1, 1});
  deferred_.forward(1, compute(), rows,
                    {.expert_ids = TensorView(ids.data(), DType::I32, {1, 2}),
                     .weights = TensorView(weights.data(), DType::F32, {1, 2})},
                    rows, pass_);
  EXPECT_EQ(x, Values{26});
  EXPECT_EQ(forward(0, {0}, {0, 0}, {1, 1}), Values{15});
}

TEST_F(DeferredExpertsTest, EveryTokenHasItsOwn) {
  forward(1, {1, 2}, {0, 1, 2, 3}, {2, 1, 1, 2});
  deferred_.run(pass_);
  EXPECT_EQ(calls_, (std::vector<Call>{{{0, -1, -1, 3}, {1, 2}}, {{-1, 1, 2, -1}, {1, 2}}}));
}

TEST_F(DeferredExpertsTest, OfEqualWeightsTheLaterIsDeferred) {
  forward(1, {0}, {4, 5, 6}, {1, 1, 1});
  EXPECT_EQ(calls_.front().expert_ids, (Ids{4, 5, -1}));
}

// Another device computes the experts with id -1, whatever their weights.
TEST_F(DeferredExpertsTest, ExpertsOfOtherDevicesStayThere) {
  forward(2, {0}, {4, -1, 6}, {3, 1, 2});
  deferred_.run(pass_);
  EXPECT_EQ(calls_, (std::vector<Call>{{{4, -1, -1}, {0}}, {{-1, -1, 6}, {0}}}));
}

TEST_F(DeferredExpertsTest, RunningEarlyChangesNothing) {
  forward(1, {10}, {3, 5}, {2, 1});
  deferred_.run(pass_);
  deferred_.run(pass_);
  EXPECT_EQ(calls_.size(), 2U) << "computed once";
  EXPECT_EQ(forward(0, {0}, {0, 0}, {1, 1}), Values{15});
}

TEST_F(DeferredExpertsTest, AFailedPassLeavesNothing) {
  forward(1, {10}, {3, 5}, {2, 1});
  deferred_.clear();
  EXPECT_EQ(forward(0, {1}, {0, 1}, {1, 1}), Values{1 + 2});
  forward(1, {10}, {3, 5}, {2, 1});
  deferred_.run(pass_);
  deferred_.clear();
  EXPECT_EQ(forward(0, {1}, {0, 1}, {1, 1}), Values{1 + 2});
}

}  // namespace
}  // namespace graft::ops
