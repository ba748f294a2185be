// What follows the products of routed experts on the CPU: biases and the activation.

#pragma once

#include <cstdint>
#include <string>

#include "graft/ops/experts/moe_common.h"
#include "graft/ops/params.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {

class ExpertActivation {
 public:
  explicit ExpertActivation(const ExpertsParams& params) : params_(params) {}

  void load(WeightProvider& weights, const std::string& module);
  void unload() { biases_ = {}; }

  // Outputs [begin, begin + count) of an expert.
  struct Outputs {
    std::int64_t expert = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  // gate = activation(gate + bias, up + bias); overwrites up. Both begin at outputs.begin.
  void apply(const Outputs& outputs, float* gate, float* up) const;
  // down += bias
  void add_down_bias(const Outputs& outputs, float* down) const;

 private:
  ExpertsParams params_;
  ExpertBiases biases_;
};

}  // namespace graft::ops::cpu
