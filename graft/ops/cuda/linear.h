// Linear layers on a GPU. primitives.cpp fuses layers that share an input.

#pragma once

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
  void forward(const Activation& x, TensorView y, Pass& pass) override;
  ActivationFormat input_format(std::int64_t rows) const override;

  const std::string& module() const { return module_; }

  // Whether the columns of the matrix are in another order than those of x; product() must not be
  // fused then.
  bool has_column_order() const { return column_order_.size() > 0; }
  Product product(TensorView y) const;

 private:
  std::string module_;
  LinearParams params_;
  Device device_;
  Precision precision_;
  DeviceWeight weight_;
  Buffer column_order_;  // [in] i32, Weight::column_order; empty: in order
  Buffer bias_;          // f32; empty: none
};

}  // namespace graft::ops::cuda
