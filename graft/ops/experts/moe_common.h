// Checks and loading that the routers and experts of all devices share.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// Throws Error when top_k, num_experts and the groups are inconsistent.
void check_router(const std::string& module, const RouterParams& params);

// The table "tid2eid" of a router, [hash_vocab_size, top_k], of int64 or int32 values. Throws Error
// when it has another shape or an expert that the model does not have.
std::vector<std::int32_t> load_hash_table(WeightProvider& weights,
                                          const std::string& module,
                                          const RouterParams& params);

// The routed experts of a layer, by expert index. Columns that GPTQ's desc_act sorts
// (Weight::column_order) are an order of x in gate_proj and up_proj. Those of down_proj are already
// applied: the rows of gate_proj and up_proj are in the order in which down_proj reads them.
struct ExpertWeights {
  std::vector<Weight> gate_proj;  // of [intermediate, hidden]
  std::vector<Weight> up_proj;    // of [intermediate, hidden]
  std::vector<Weight> down_proj;  // of [hidden, intermediate], columns in order
};

// Throws Error when experts are missing or have another shape.
ExpertWeights load_experts(WeightProvider& weights,
                           const std::string& module,
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
