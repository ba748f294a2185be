// What follows the products of routed experts: biases and the activation. Kernels that do not have
// it fused write the products of gate, up and down to memory and call the functions below.

#pragma once

#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct ExpertEpilogue {
  const float* gate_bias = nullptr;  // [experts, intermediate]; null: no biases
  const float* up_bias = nullptr;    // [experts, intermediate]
  const float* down_bias = nullptr;  // [experts, hidden]
  float swiglu_limit = 0.0F;         // 0: silu(gate) * up, else see silu.cuh
  bool limits_silu = false;          // which of the limited forms

  bool is_plain() const { return gate_bias == nullptr && swiglu_limit == 0.0F; }
};

// The experts of pairs; others are skipped and their rows are not written.
struct PairExperts {
  const std::int32_t* ids = nullptr;  // [pairs]
  std::int64_t pairs = 0;
  std::int32_t first = 0;  // experts [first, end) …
  std::int32_t end = 0x7fffffff;
};

// y = activation(gate + bias, up + bias), [pairs, intermediate] each; y may be gate or up.
void activate_pairs(const ExpertEpilogue& epilogue,
                    const PairExperts& experts,
                    ConstRows gate,
                    ConstRows up,
                    Rows y,
                    std::int64_t intermediate,
                    Stream stream);
// results[pairs, hidden] += the bias of down; nothing to do without biases.
void add_down_bias(const ExpertEpilogue& epilogue,
                   const PairExperts& experts,
                   Rows results,
                   std::int64_t hidden,
                   Stream stream);

}  // namespace graft::kernels::cuda
