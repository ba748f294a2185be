#include <string>

#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

class LinearCuda final : public Linear {
 public:
  explicit LinearCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<LinearParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(params_.out_features, params_.in_features);
    weight_ = DeviceWeight(weight, device_);
    weights.release(weight);
    if (!params_.bias) return;
    const Weight bias = weights.get(module_ + ".bias");
    bias.expect_shape(1, params_.out_features);
    bias_ = upload_floats(bias.decode(), device_);
  }
  void unload() override {
    weight_ = {};
    bias_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    multiply(cuda::one_linear(weight_.matrix(), reinterpret_cast<const float*>(bias_.data()),
                              rows_of(x), rows_of(y), x.rows()),
             precision_, state, pass.workspace);
  }

 private:
  std::string module_;
  LinearParams params_;
  Device device_;
  Precision precision_;
  DeviceWeight weight_;
  Buffer bias_;  // f32; empty: none
};

}  // namespace

std::unique_ptr<Operator> make_linear_cuda(const BuildContext& context) {
  return std::make_unique<LinearCuda>(context);
}

}  // namespace graft::ops
