#include "graft/ops/cuda/linear.h"

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {

LinearCuda::LinearCuda(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<LinearParams>()),
      device_(context.device),
      precision_(precision_kwarg(context)) {}

void LinearCuda::load(WeightProvider& weights) {
  use_gpu(device_.index);
  const Weight weight = weights.get(module_ + ".weight");
  weight.expect_linear(params_.out_features, params_.in_features);
  if (weight.column_order) column_order_ = upload_indices(*weight.column_order, device_, weights);
  weight_ = DeviceWeight(weight, device_, weights, weight_layout(weight, precision_));
  weights.release(weight);
  if (!params_.bias) return;
  const Weight bias = weights.get(module_ + ".bias");
  bias.expect_shape(1, params_.out_features);
  bias_ = upload_floats(bias.decode(), device_, weights);
}

void LinearCuda::unload() {
  weight_ = {};
  column_order_ = {};
  bias_ = {};
}

void LinearCuda::forward(const Activation& x, TensorView y, Pass& pass) {
  CudaContext& gpu = cuda_context(device_, pass);
  const ProfileScope profile(pass, device_, module_);
  const Product one = product(y);
  if (!has_column_order()) return multiply(x, {&one, 1}, gpu, pass.workspace);
  const Workspace::Scope scope(pass.workspace);
  const TensorView ordered = pass.workspace.f32({x.rows(), x.cols()});
  kernels::cuda::gather_columns(rows_of(x.f32),
                                reinterpret_cast<const std::int32_t*>(column_order_.data()),
                                rows_of(ordered), x.rows(), x.cols(), gpu.stream());
  multiply(ordered, {&one, 1}, gpu, pass.workspace);
}

Product LinearCuda::product(TensorView y) const {
  return {.weight = &weight_.matrix(),
          .bias = reinterpret_cast<const float*>(bias_.data()),
          .y = y,
          .precision = precision_};
}

ActivationFormat LinearCuda::input_format(std::int64_t rows) const {
  if (has_column_order()) return ActivationFormat::F32;
  return cuda::input_format(weight_.matrix(), precision_, rows);
}

std::unique_ptr<Operator> make_linear_cuda(const BuildContext& context) {
  return std::make_unique<LinearCuda>(context);
}

}  // namespace graft::ops::cuda
