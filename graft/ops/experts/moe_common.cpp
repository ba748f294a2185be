#include "graft/ops/experts/moe_common.h"

#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft::ops {
namespace {

// Families with such biases call the projections gate_proj, up_proj and down_proj.
std::vector<float> load_bias(WeightProvider& weights,
                             const std::string& module,
                             std::string_view projection,
                             std::int64_t num_experts,
                             std::int64_t rows) {
  std::vector<float> all;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const std::vector<float> one =
        load_vector(weights, str(module, '.', expert, '.', projection, ".bias"), rows);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

void check_router(const std::string& module, const RouterParams& params) {
  const bool even = params.num_groups > 0 && params.num_experts % params.num_groups == 0;
  if (even && params.top_k_groups >= 1 && params.top_k_groups <= params.num_groups &&
      params.top_k >= 1 && params.top_k <= params.num_experts)
    return;
  fail(module, ": invalid routing: top ", params.top_k, " of ", params.num_experts,
       " experts from the top ", params.top_k_groups, " of ", params.num_groups, " groups");
}

std::vector<Weight> load_experts(WeightProvider& weights,
                                 const std::string& module,
                                 std::string_view projection,
                                 const ExpertsParams& params) {
  std::vector<Weight> loaded = weights.experts(module, projection);
  if (static_cast<std::int64_t>(loaded.size()) != params.num_experts) {
    fail(module, ": ", projection, " found for ", loaded.size(), " of ", params.num_experts,
         " experts");
  }
  const bool is_down = projection == "down_proj";
  for (const Weight& weight : loaded) {
    weight.expect_shape(is_down ? params.hidden_size : params.intermediate_size,
                        is_down ? params.intermediate_size : params.hidden_size);
  }
  return loaded;
}

ExpertBiases load_expert_biases(WeightProvider& weights,
                                const std::string& module,
                                const ExpertsParams& params) {
  if (!params.bias) return {};
  const auto load = [&](std::string_view projection, std::int64_t rows) {
    return load_bias(weights, module, projection, params.num_experts, rows);
  };
  return {.gate_proj = load("gate_proj", params.intermediate_size),
          .up_proj = load("up_proj", params.intermediate_size),
          .down_proj = load("down_proj", params.hidden_size)};
}

}  // namespace graft::ops
