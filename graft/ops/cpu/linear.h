// Linear layers on the CPU. primitives.cpp fuses packed layers that share an input.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graft/ops/cpu/packed.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops::cpu {

class LinearCpu final : public Linear {
 public:
  explicit LinearCpu(const BuildContext& context);

  void load(WeightProvider& weights) override;
  void unload() override;
  void forward(const Activation& activation, TensorView y, Pass& pass) override;

  const std::string& module() const { return module_; }

  const PackedMatrix& packed() const { return packed_; }  // empty: not packed
  // Whether the columns of the matrix are in another order than those of x.
  bool has_column_order() const { return column_order_ != nullptr; }
  bool has_bias() const { return !bias_.empty(); }
  void add_bias(TensorView y) const;

 private:
  TensorView order_columns(TensorView x, Pass& pass) const;

  std::string module_;
  LinearParams params_;
  bool repack_;
  PackedMatrix packed_;  // [out, in]; empty: `weight_` is used
  Weight weight_;        // [out, in], in the dtype of the file
  std::shared_ptr<const std::vector<std::int32_t>> column_order_;  // Weight::column_order
  std::vector<float> bias_;                                        // [out], empty: none
};

}  // namespace graft::ops::cpu
