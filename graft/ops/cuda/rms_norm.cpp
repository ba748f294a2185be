#include "graft/ops/cuda/rms_norm.h"

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {

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
  state.forget_bytes();
  kernels::cuda::rms_norm(rows_of(x), weight(), rows_of(y), x.rows(), x.cols(), eps(),
                          state.stream());
}

void RmsNormCuda::forward_add(TensorView x, TensorView more, TensorView y, Pass& pass) {
  CudaState& state = cuda_state(device_, pass);
  const CudaProfileScope profile(state, pass, module_);
  state.forget_bytes();
  if (x.rows() > kMaxRowsAsBytes || x.cols() % 32 != 0) {
    return kernels::cuda::add_rms_norm(rows_of(x), rows_of(more), weight(), rows_of(y), x.rows(),
                                       x.cols(), eps(), state.stream());
  }
  // Of the layer, like y: whoever multiplies y finds its bytes there.
  const TensorView memory = pass.workspace.take(
      DType::U8, {static_cast<std::int64_t>(kernels::cuda::q8_rows_bytes(x.rows(), x.cols()))});
  const kernels::cuda::Q8Rows bytes = kernels::cuda::q8_rows_at(memory.data, x.rows(), x.cols());
  kernels::cuda::add_rms_norm_q8(rows_of(x), rows_of(more), weight(), rows_of(y), bytes,
                                 {.rows = x.rows(), .cols = x.cols(), .eps = eps()},
                                 state.stream());
  state.remember_bytes(y, bytes);
}

std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context) {
  return std::make_unique<RmsNormCuda>(context);
}

}  // namespace graft::ops::cuda
