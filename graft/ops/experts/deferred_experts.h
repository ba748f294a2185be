// Expert deferral: in decode passes, the experts of a token with the lowest weights are added in
// the next layer with experts. The CPU computes them while a GPU runs the attention in between:
//
//              layer L                       layer L + 1
//     GPU      router ... wait, add          attention, router ... wait, add
//     CPU              immediate(L), deferred(L) ............... immediate(L + 1), deferred(L + 1)
//
// The result of layer L + 1 is immediate(L + 1) + deferred(L), which changes what the model
// computes. Never in prefill passes, and the last layer defers nothing.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graft/ops/operator.h"

namespace graft::ops {

// The deferred experts of a pass, one object per model. On the host only; not thread-safe.
class DeferredExperts {
 public:
  // y = sum over the chosen experts
  using Compute = std::function<void(TensorView x, Routing routing, TensorView y, Pass& pass)>;

  // y = sum over the chosen experts of a layer except the `num_deferred` of lowest weight of each
  // token, plus what the layer before has deferred. run() computes the others, with `compute`.
  void forward(std::int64_t num_deferred,
               const Compute& compute,
               TensorView x,
               Routing routing,
               TensorView y,
               Pass& pass);

  // Computes what the last forward() has deferred, unless that has happened. forward() does it too,
  // so calling this earlier changes the time only.
  void run(Pass& pass);

  // Before every pass: one that failed may have left something.
  void clear();

 private:
  void add_to(TensorView y);

  Compute compute_;  // of the experts that run() has to compute; null: none
  // Of the layer that deferred, [rows, ...].
  std::int64_t num_rows_ = 0;
  std::vector<float> x_;
  std::vector<std::int32_t> expert_ids_;  // -1: not deferred
  std::vector<float> weights_;
  std::vector<float> sum_;  // valid when has_sum_
  bool has_sum_ = false;
};

}  // namespace graft::ops
