// Linear layers on a GPU, alone or several with the same input.

#pragma once

#include <initializer_list>
#include <string>

#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops::cuda {

class LinearCuda final : public Linear {
 public:
  explicit LinearCuda(const BuildContext& context);

  void load(WeightProvider& weights) override;
  void unload() override;
  void forward(TensorView x, TensorView y, Pass& pass) override;

  Product product(TensorView y) const;

 private:
  std::string module_;
  LinearParams params_;
  Device device_;
  Precision precision_;
  DeviceWeight weight_;
  Buffer bias_;  // f32; empty: none
};

// Any operators, not only those of this kind, for a caller on the GPU `device`. The input is
// rounded once for all of them.
void forward_grouped(TensorView x,
                     std::initializer_list<LinearCall> calls,
                     Device device,
                     Pass& pass);

}  // namespace graft::ops::cuda
