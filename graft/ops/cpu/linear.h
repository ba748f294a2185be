// Linear layers on the processor, alone or several with the same input.

#pragma once

#include <initializer_list>
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
  void forward(TensorView x, TensorView y, Pass& pass) override;

  const PackedMatrix& packed() const { return packed_; }  // empty: it is not
  bool has_bias() const { return !bias_.empty(); }
  void add_bias(TensorView y) const;

 private:
  std::string module_;
  LinearParams params_;
  bool repack_;
  PackedMatrix packed_;      // [out, in], or
  Weight weight_;            // [out, in], as the file stores it
  std::vector<float> bias_;  // [out], empty: none
};

// Any operators, for a caller on the processor: those that are packed in one loop.
void forward_grouped(TensorView x, std::initializer_list<LinearCall> calls, Pass& pass);

// gate.y = silu(gate.y) * up.y after both layers. In one loop where both are packed.
void forward_gated(TensorView x, const LinearCall& gate, const LinearCall& up, Pass& pass);

}  // namespace graft::ops::cpu
