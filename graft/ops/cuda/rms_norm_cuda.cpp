#include <string>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

class RmsNormCuda final : public Norm {
 public:
  explicit RmsNormCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<NormParams>()),
        device_(context.device) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(1, params_.size);
    weight_ = upload_floats(weight.decode(), device_);
  }
  void unload() override { weight_ = {}; }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    cuda::rms_norm(rows_of(x), reinterpret_cast<const float*>(weight_.data()), rows_of(y), x.rows(),
                   x.cols(), static_cast<float>(params_.eps), state.stream());
  }

  void forward_sum(TensorView x, TensorView more, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    cuda::add_rms_norm(rows_of(x), rows_of(more), reinterpret_cast<const float*>(weight_.data()),
                       rows_of(y), x.rows(), x.cols(), static_cast<float>(params_.eps),
                       state.stream());
  }

 private:
  std::string module_;
  NormParams params_;
  Device device_;
  Buffer weight_;
};

}  // namespace

std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context) {
  return std::make_unique<RmsNormCuda>(context);
}

}  // namespace graft::ops
