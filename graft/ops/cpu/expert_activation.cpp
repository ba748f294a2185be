#include "graft/ops/cpu/expert_activation.h"

#include <algorithm>
#include <vector>

#include "graft/kernels/cpu/table.h"

namespace graft::ops::cpu {
namespace {

// biases: [experts, rows]; empty: none
void add_expert_bias(const std::vector<float>& biases,
                     std::int64_t rows,
                     const ExpertActivation::Outputs& outputs,
                     float* y) {
  if (biases.empty()) return;
  const float* bias = biases.data() + outputs.expert * rows + outputs.begin;
  kernels::cpu::kernels().math.axpy(1.0F, bias, y, outputs.count);
}

}  // namespace

void ExpertActivation::load(WeightProvider& weights, const std::string& module) {
  biases_ = load_expert_biases(weights, module, params_);
}

void ExpertActivation::apply(const Outputs& outputs, float* gate, float* up) const {
  const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
  add_expert_bias(biases_.gate_proj, params_.intermediate_size, outputs, gate);
  add_expert_bias(biases_.up_proj, params_.intermediate_size, outputs, up);
  if (params_.limits_silu) {
    for (std::int64_t i = 0; i < outputs.count; ++i) {
      gate[i] = std::min(gate[i], params_.swiglu_limit);
      up[i] = std::clamp(up[i], -params_.swiglu_limit, params_.swiglu_limit);
    }
    math.silu_mul(gate, up, gate, outputs.count);
  } else if (params_.swiglu_limit > 0.0F) {
    math.clamped_swiglu(gate, up, gate, outputs.count, params_.swiglu_limit);
  } else {
    math.silu_mul(gate, up, gate, outputs.count);
  }
}

void ExpertActivation::add_down_bias(const Outputs& outputs, float* down) const {
  add_expert_bias(biases_.down_proj, params_.hidden_size, outputs, down);
}

}  // namespace graft::ops::cpu
