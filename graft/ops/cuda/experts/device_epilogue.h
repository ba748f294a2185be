// The biases of routed experts in GPU memory, and their activation.

#pragma once

#include <string>

#include "graft/kernels/cuda/moe/expert_epilogue.h"
#include "graft/ops/params.h"
#include "graft/ops/weight.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class DeviceEpilogue {
 public:
  void load(WeightProvider& weights,
            const std::string& module,
            const ExpertsParams& params,
            Device device);
  void unload();
  // Valid until unload().
  kernels::cuda::ExpertEpilogue get() const;

 private:
  float swiglu_limit_ = 0.0F;
  bool limits_silu_ = false;
  // [experts, rows of the projection] f32; empty: none
  Buffer gate_bias_;
  Buffer up_bias_;
  Buffer down_bias_;
};

}  // namespace graft::ops::cuda
