#include "graft/ops/cuda/rms_norm.h"

#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {

RmsNormCuda::RmsNormCuda(const BuildContext& context)
    : module_(context.module), params_(context.params_as<NormParams>()), device_(context.device) {}

void RmsNormCuda::load(WeightProvider& weights) {
  if (!params_.has_weight) {
    const std::vector<float> ones(static_cast<std::size_t>(params_.size), 1.0F);
    weight_ = upload_floats(ones, device_, weights);
    return;
  }
  const Weight weight = weights.get(module_ + ".weight");
  weight.expect_shape(1, params_.size);
  weight_ = upload_floats(weight.decode(), device_, weights);
}

void RmsNormCuda::forward(TensorView x, TensorView y, Pass& pass) {
  CudaContext& gpu = cuda_context(device_, pass);
  const ProfileScope profile(pass, device_, module_);
  kernels::cuda::rms_norm(rows_of(x), weight(), rows_of(y), x.rows(), x.cols(), eps(),
                          gpu.stream());
}

Activation RmsNormCuda::forward_add(
    TensorView x, TensorView residual, TensorView y, ActivationFormat wanted, Pass& pass) {
  CudaContext& gpu = cuda_context(device_, pass);
  const ProfileScope profile(pass, device_, module_);
  const kernels::cuda::NormSize size = {.rows = x.rows(), .cols = x.cols(), .eps = eps()};
  if (wanted == ActivationFormat::F16) {
    const F16Rows f16 = allocate_f16(x.rows(), x.cols(), pass.workspace);
    kernels::cuda::add_rms_norm_panel_rows(rows_of(x), rows_of(residual), weight(), rows_of(y),
                                           panel_rows_of(f16, x.rows()), size, gpu.stream());
    return {y, f16};
  }
  if (wanted != ActivationFormat::Int8 || x.cols() % 32 != 0) {
    kernels::cuda::add_rms_norm(rows_of(x), rows_of(residual), weight(), rows_of(y), x.rows(),
                                x.cols(), eps(), gpu.stream());
    return y;
  }
  const Int8Rows int8 = allocate_int8(x.rows(), x.cols(), pass.workspace);
  kernels::cuda::add_rms_norm_q8(rows_of(x), rows_of(residual), weight(), rows_of(y),
                                 q8_rows_of(int8), size, gpu.stream());
  return {y, int8};
}

std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context) {
  return std::make_unique<RmsNormCuda>(context);
}

}  // namespace graft::ops::cuda
