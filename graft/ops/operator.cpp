#include "graft/ops/operator.h"

#include "graft/base/check.h"
#include "graft/ops/devices/device_context.h"

namespace graft::ops {

Activation Norm::forward_add(
    TensorView x, TensorView residual, TensorView y, ActivationFormat /*wanted*/, Pass& pass) {
  pass.devices->at(x.device).add(x, residual, pass);
  forward(x, y, pass);
  return y;
}

void Linear::apply(const Activation& x, TensorView y, Pass& pass) {
  forward(x, y, pass);
  if (!is_adapted(pass)) return;
  GRAFT_CHECK(x.has_f32(), "adapters need the input of a linear layer as f32");
  lora_->add({.data = x.f32.f32(), .row_stride = x.cols()},
             {.data = y.f32(), .row_stride = y.cols()}, 0, x.rows(), pass);
}

}  // namespace graft::ops
