#include "graft/ops/cuda/rms_norm_cuda.h"

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {

RmsNormCuda::RmsNormCuda(const BuildContext& context)
    : module_(context.module), params_(context.params_as<NormParams>()), device_(context.device) {}

void RmsNormCuda::load(WeightProvider& weights) {
  const Weight weight = weights.get(module_ + ".weight");
  weight.expect_shape(1, params_.size);
  weight_ = upload_floats(weight.decode(), device_);
}

void RmsNormCuda::forward(TensorView x, TensorView y, Pass& pass) {
  CudaState& state = cuda_state(device_, pass);
  const CudaProfileScope profile(state, pass, module_);
  cuda::rms_norm(rows_of(x), weight(), rows_of(y), x.rows(), x.cols(), eps(), state.stream());
}

void RmsNormCuda::forward_sum(TensorView x, TensorView more, TensorView y, Pass& pass) {
  CudaState& state = cuda_state(device_, pass);
  const CudaProfileScope profile(state, pass, module_);
  cuda::add_rms_norm(rows_of(x), rows_of(more), weight(), rows_of(y), x.rows(), x.cols(), eps(),
                     state.stream());
}

std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context) {
  return std::make_unique<RmsNormCuda>(context);
}

}  // namespace graft::ops
