#include "graft/ops/operator.h"

#include "graft/ops/device_state.h"

namespace graft::ops {

void Norm::forward_add(TensorView x, TensorView more, TensorView y, Pass& pass) {
  pass.devices->at(x.device).add(x, more, pass);
  forward(x, y, pass);
}

}  // namespace graft::ops
