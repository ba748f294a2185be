// Checks and loading that the routers and experts of all devices share.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// Throws Error when top_k, num_experts and the groups are inconsistent.
void check_router(const std::string& module, const RouterParams& params);

// One projection of all experts. Throws Error when experts are missing or have another shape.
std::vector<Weight> load_experts(WeightProvider& weights,
                                 const std::string& module,
                                 std::string_view projection,
                                 const ExpertsParams& params);

// The biases of all experts, [experts, rows of the projection]; empty: none.
struct ExpertBiases {
  std::vector<float> gate_proj;
  std::vector<float> up_proj;
  std::vector<float> down_proj;
};

// Empty unless params.bias. Throws Error when a bias is missing or has another size.
ExpertBiases load_expert_biases(WeightProvider& weights,
                                const std::string& module,
                                const ExpertsParams& params);

}  // namespace graft::ops
