#include "graft/ops/experts/moe_common.h"

#include "graft/base/error.h"

namespace graft::ops {

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

}  // namespace graft::ops
