// MoE router: selects the experts of each token and their weights. The router of graft/ops/cpu is
// the reference, ties included (lowest expert index first).

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/kernels/router_types.h"

namespace graft::kernels::cuda {

struct RouterShape {
  std::int64_t num_experts = 0;  // at most 1024
  std::int64_t top_k = 0;
  RouterScoring scoring = RouterScoring::Softmax;
  RouterMethod method = RouterMethod::Greedy;
  std::int64_t num_groups = 1;
  std::int64_t top_k_groups = 1;
  bool normalize = false;
  float scaling_factor = 1.0F;
};

// What selects the experts of a row beside its scores.
struct RouterChoice {
  const float* bias = nullptr;  // [num_experts], added for the selection only; null: none
  // The experts of every token, which the scores then only weight; null: the scores select.
  const std::int32_t* table = nullptr;      // [vocab, top_k]
  const std::int32_t* token_ids = nullptr;  // [rows], with a table
};

// scores[rows, num_experts] f32: router logits. Out: expert_ids and weights [rows, top_k], best
// first, or in the order of the table.
void route(const RouterShape& shape,
           const float* scores,
           const RouterChoice& choice,
           std::int64_t rows,
           std::int32_t* expert_ids,
           float* weights,
           Stream stream);

}  // namespace graft::kernels::cuda
