// Linear layers on the CPU. primitives.cpp fuses packed layers that share an input.

#pragma once

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
  bool has_bias() const { return !bias_.empty(); }
  void add_bias(TensorView y) const;

 private:
  std::string module_;
  LinearParams params_;
  bool repack_;
  PackedMatrix packed_;      // [out, in]; empty: `weight_` is used
  Weight weight_;            // [out, in], in the dtype of the file
  std::vector<float> bias_;  // [out], empty: none
};

}  // namespace graft::ops::cpu
