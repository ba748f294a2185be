// Rotary embedding on a GPU, alone or inside the fused qk_norm_rope_store kernel.

#pragma once

#include <string>

#include "graft/kernels/cuda/attention/rope.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class RopeCuda final : public Rope {
 public:
  explicit RopeCuda(const BuildContext& context);

  void load(WeightProvider& weights) override;
  void unload() override {
    inv_freq_ = {};
    long_inv_freq_ = {};
  }
  void forward(TensorView x, const Heads& heads, Pass& pass) override;

  kernels::cuda::RopeConfig rotation() const;

 private:
  std::string module_;
  RopeParams params_;
  Device device_;
  Buffer inv_freq_;
  Buffer long_inv_freq_;  // LongRoPE
};

}  // namespace graft::ops::cuda
