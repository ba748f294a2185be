#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/experts/moe_common.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

using Method = RouterParams::Method;
using Scoring = RouterParams::Scoring;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
// Added to the sum of the chosen weights against division by 0, as in the models' reference code.
constexpr float kMinSum = 1e-20F;

// The indices of the top-k values in descending order; ties go to the lower index.
void select_top_k(std::span<const float> values, std::span<std::int32_t> chosen) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto beats = [&](std::size_t rank) {
      return values[i] > values[static_cast<std::size_t>(chosen[rank])];
    };
    if (count == chosen.size() && !beats(count - 1)) continue;
    std::size_t rank = count < chosen.size() ? count++ : count - 1;
    for (; rank > 0 && beats(rank - 1); --rank)
      chosen[rank] = chosen[rank - 1];
    chosen[rank] = static_cast<std::int32_t>(i);
  }
}

// The max score of a group; for noaux_tc the sum of its two highest scores.
float group_score(Method method, std::span<const float> scores) {
  const float best = std::ranges::max(scores);
  if (method != Method::NoauxTc || scores.size() == 1) return best;
  float first = kExcluded;
  float second = kExcluded;
  for (const float score : scores) {
    second = std::max(second, std::min(first, score));
    first = std::max(first, score);
  }
  return first + second;
}

// Scratch of one worker. Sizes: e = experts, g = groups.
struct Scratch {
  std::vector<float> choice;         // [e], scores with bias, which select the experts
  std::vector<float> group_scores;   // [g]
  std::vector<std::int32_t> groups;  // [top_k_groups], selected groups
};

class RouterCpu final : public Router {
 public:
  RouterCpu(std::string module, const RouterParams& params)
      : module_(std::move(module)), params_(params) {
    check_router(module_, params_);
  }

  void load(WeightProvider& weights) override {
    weight_ = weights.get(module_ + ".weight");
    weight_.expect_shape(params_.num_experts, params_.hidden_size);
    logit_bias_.clear();
    if (params_.bias) logit_bias_ = load_vector(weights, module_ + ".bias", params_.num_experts);
    if (params_.hash_vocab_size > 0) table_ = load_hash_table(weights, module_, params_);
    const std::string bias_name = module_ + ".e_score_correction_bias";
    bias_.clear();
    if (!weights.contains(bias_name)) return;
    const Weight bias = weights.get(bias_name);
    bias.expect_shape(1, params_.num_experts);
    bias_ = bias.decode();
  }
  void unload() override {
    weight_ = {};
    logit_bias_ = {};
    bias_ = {};
    table_ = {};
  }

  std::int64_t top_k() const override { return params_.top_k; }

  void forward(TensorView x, Routing out, Pass& pass) override {
    const ProfileScope profile(pass, kCpu, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView scores = pass.workspace.f32({x.rows(), params_.num_experts});
    multiply(weight_, x, scores, pass);
    const std::int64_t workers = num_workers(pass.pool, x.rows());
    while (static_cast<std::int64_t>(scratch_.size()) < workers)
      scratch_.push_back(make_scratch());
    for_each_item(pass.pool, x.rows(), [&](std::int64_t worker, std::int64_t row) {
      const auto top_k = static_cast<std::size_t>(params_.top_k);
      const std::span ids(out.expert_ids.as<std::int32_t>() + row * params_.top_k, top_k);
      const std::span weights(out.weights.f32_row(row), top_k);
      const std::span row_scores(scores.f32_row(row),
                                 static_cast<std::size_t>(params_.num_experts));
      score(row_scores);
      if (params_.hash_vocab_size > 0) {
        look_up(pass.batch.token_ids[static_cast<std::size_t>(row)], ids);
      } else {
        choose(row_scores, ids, scratch_[static_cast<std::size_t>(worker)]);
      }
      weigh(row_scores, ids, weights);
    });
  }

 private:
  Scratch make_scratch() const {
    return {.choice = std::vector<float>(static_cast<std::size_t>(params_.num_experts)),
            .group_scores = std::vector<float>(static_cast<std::size_t>(params_.num_groups)),
            .groups = std::vector<std::int32_t>(static_cast<std::size_t>(params_.top_k_groups))};
  }

  // From logits to scores.
  void score(std::span<float> scores) const {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    for (std::size_t e = 0; e < logit_bias_.size(); ++e)
      scores[e] += logit_bias_[e];
    switch (params_.scoring) {
      case Scoring::Sigmoid:
        return math.sigmoid(scores.data(), params_.num_experts);
      case Scoring::SqrtSoftplus:
        for (float& score : scores)
          score = std::sqrt(std::max(score, 0.0F) + std::log1p(std::exp(-std::abs(score))));
        return;
      case Scoring::Softmax:
        break;
    }
    const float max = math.max(scores.data(), params_.num_experts);
    const float sum = math.exp_sum(scores.data(), params_.num_experts, max);
    math.scale(scores.data(), params_.num_experts, 1.0F / sum);
  }

  void look_up(std::int32_t token, std::span<std::int32_t> ids) const {
    GRAFT_CHECK(token >= 0 && token < params_.hash_vocab_size, module_, ": token ", token);
    std::copy_n(table_.data() + token * params_.top_k, ids.size(), ids.data());
  }

  void choose(std::span<const float> scores, std::span<std::int32_t> ids, Scratch& scratch) const {
    std::ranges::copy(scores, scratch.choice.begin());
    for (std::size_t e = 0; e < bias_.size(); ++e)
      scratch.choice[e] += bias_[e];
    if (params_.method != Method::Greedy) exclude_groups(scratch);
    select_top_k(scratch.choice, ids);
  }

  void weigh(std::span<const float> scores,
             std::span<const std::int32_t> ids,
             std::span<float> weights) const {
    float sum = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      weights[k] = scores[static_cast<std::size_t>(ids[k])];
      sum += weights[k];
    }
    const float divisor = params_.normalize ? sum + kMinSum : 1.0F;
    for (float& weight : weights)
      weight = weight / divisor * params_.scaling_factor;
  }

  // Masks experts outside the top groups: -inf, or 0 for DeepSeek-V2 (group_limited_greedy), which
  // ranks them below all positive scores.
  void exclude_groups(Scratch& scratch) const {
    const auto group_size = static_cast<std::size_t>(params_.num_experts / params_.num_groups);
    const std::span<float> choice = scratch.choice;
    for (std::size_t g = 0; g < scratch.group_scores.size(); ++g) {
      scratch.group_scores[g] =
          group_score(params_.method, choice.subspan(g * group_size, group_size));
    }
    select_top_k(scratch.group_scores, scratch.groups);
    const float masked = params_.method == Method::GroupLimitedGreedy ? 0.0F : kExcluded;
    for (std::size_t g = 0; g < scratch.group_scores.size(); ++g) {
      if (std::ranges::find(scratch.groups, static_cast<std::int32_t>(g)) != scratch.groups.end()) {
        continue;
      }
      std::ranges::fill(choice.subspan(g * group_size, group_size), masked);
    }
  }

  std::string module_;
  RouterParams params_;
  Weight weight_;                    // [experts, hidden]
  std::vector<float> logit_bias_;    // [experts]; empty: none
  std::vector<float> bias_;          // [experts], for selection only; empty: none
  std::vector<std::int32_t> table_;  // [vocab, top_k], the experts of every token; empty: none
  std::vector<Scratch> scratch_;     // one per worker
};

}  // namespace

std::unique_ptr<Operator> make_router_cpu(const BuildContext& context) {
  return std::make_unique<RouterCpu>(context.module, context.params_as<RouterParams>());
}

}  // namespace graft::ops::cpu
