// Root mean square norm on a GPU, alone or inside the fused kernels of primitives.cpp.

#pragma once

#include <string>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class RmsNormCuda final : public Norm {
 public:
  explicit RmsNormCuda(const BuildContext& context);

  void load(WeightProvider& weights) override;
  void unload() override { weight_ = {}; }
  void forward(TensorView x, TensorView y, Pass& pass) override;
  Activation forward_add(TensorView x,
                         TensorView residual,
                         TensorView y,
                         ActivationFormat wanted,
                         Pass& pass) override;

  const float* weight() const { return reinterpret_cast<const float*>(weight_.data()); }
  float eps() const { return static_cast<float>(params_.eps); }

 private:
  std::string module_;
  NormParams params_;
  Device device_;
  Buffer weight_;
};

}  // namespace graft::ops::cuda
