#include "graft/ops/cuda/linear.h"

#include <vector>

#include "graft/ops/cuda/operators.h"

namespace graft::ops::cuda {

LinearCuda::LinearCuda(const BuildContext& context)
    : module_(context.module),
      params_(context.params_as<LinearParams>()),
      device_(context.device),
      precision_(precision_kwarg(context)) {}

void LinearCuda::load(WeightProvider& weights) {
  const Weight weight = weights.get(module_ + ".weight");
  weight.expect_shape(params_.out_features, params_.in_features);
  weight_ = DeviceWeight(weight, device_);
  weights.release(weight);
  if (!params_.bias) return;
  const Weight bias = weights.get(module_ + ".bias");
  bias.expect_shape(1, params_.out_features);
  bias_ = upload_floats(bias.decode(), device_);
}

void LinearCuda::unload() {
  weight_ = {};
  bias_ = {};
}

void LinearCuda::forward(TensorView x, TensorView y, Pass& pass) {
  CudaState& state = cuda_state(device_, pass);
  const CudaProfileScope profile(state, pass, module_);
  const Product one = product(y);
  multiply(x, {&one, 1}, state, pass.workspace);
}

Product LinearCuda::product(TensorView y) const {
  return {.weight = &weight_.matrix(),
          .bias = reinterpret_cast<const float*>(bias_.data()),
          .y = y,
          .precision = precision_};
}

void forward_grouped(TensorView x,
                     std::initializer_list<LinearCall> calls,
                     Device device,
                     Pass& pass) {
  std::vector<Product> products;
  for (const LinearCall& call : calls) {
    const auto* here = dynamic_cast<const LinearCuda*>(call.linear);
    // Whoever measures wants to know each by itself.
    if (here != nullptr && pass.profiler == nullptr) {
      products.push_back(here->product(call.y));
    } else {
      call.linear->forward(x, call.y, pass);
    }
  }
  if (!products.empty()) multiply(x, products, cuda_state(device, pass), pass.workspace);
}

std::unique_ptr<Operator> make_linear_cuda(const BuildContext& context) {
  return std::make_unique<LinearCuda>(context);
}

}  // namespace graft::ops::cuda
