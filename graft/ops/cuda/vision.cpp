// The vision tower and the projector on a GPU.

#include "graft/kernels/cuda/vision/vision.h"

#include <memory>
#include <string>
#include <utility>

#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/linear.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/vision/vision_modules.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {
namespace {

static_assert(kMaxVisionHeadDim == kernels::cuda::kMaxVisionHeadDim);

class LayerNormCuda final : public Norm {
 public:
  LayerNormCuda(std::string module, const NormParams& params, Device device)
      : module_(std::move(module)), params_(params), device_(device) {}

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    weight_ =
        upload_floats(load_vector(weights, module_ + ".weight", params_.size), device_, weights);
    bias_ = upload_floats(load_vector(weights, module_ + ".bias", params_.size), device_, weights);
  }
  void unload() override {
    weight_ = {};
    bias_ = {};
  }

  void forward(TensorView x, TensorView y, Pass& pass) override {
    kernels::cuda::layer_norm(rows_of(x),
                              {.weight = reinterpret_cast<const float*>(weight_.data()),
                               .bias = reinterpret_cast<const float*>(bias_.data())},
                              rows_of(y), x.rows(), x.cols(), static_cast<float>(params_.eps),
                              cuda_context(device_, pass).stream());
  }

 private:
  std::string module_;
  NormParams params_;
  Device device_;
  Buffer weight_;
  Buffer bias_;
};

kernels::cuda::VisionActivation kernel_of(VisionTowerParams::Activation activation) {
  using Kernel = kernels::cuda::VisionActivation;
  switch (activation) {
    case VisionTowerParams::Activation::QuickGelu:
      return Kernel::QuickGelu;
    case VisionTowerParams::Activation::Gelu:
      return Kernel::Gelu;
    case VisionTowerParams::Activation::GeluTanh:
      return Kernel::GeluTanh;
  }
  return Kernel::Gelu;
}

class VisionCuda final : public VisionPrimitives {
 public:
  std::unique_ptr<Linear> make_linear(const BuildContext& context) override {
    return std::make_unique<LinearCuda>(context);
  }

  std::unique_ptr<Norm> make_layer_norm(const std::string& name,
                                        const NormParams& params,
                                        Device device) override {
    return std::make_unique<LayerNormCuda>(name, params, device);
  }

  void attend(TensorView q,
              TensorView k,
              TensorView v,
              TensorView out,
              const Heads& heads,
              Pass& pass) override {
    kernels::cuda::vision_attend({.q = rows_of(q),
                                  .k = rows_of(k),
                                  .v = rows_of(v),
                                  .out = rows_of(out),
                                  .num_tiles = q.rows() / heads.num_tokens,
                                  .num_tokens = heads.num_tokens,
                                  .num_heads = heads.num_heads,
                                  .head_dim = heads.head_dim},
                                 cuda_context(q.device, pass).stream());
  }

  void activate(TensorView x, VisionTowerParams::Activation activation, Pass& pass) override {
    kernels::cuda::vision_activate(rows_of(x), kernel_of(activation), x.rows(), x.cols(),
                                   cuda_context(x.device, pass).stream());
  }
};

}  // namespace

std::unique_ptr<Operator> make_vision_tower_cuda(const BuildContext& context) {
  return make_vision_tower(context, std::make_unique<VisionCuda>());
}

std::unique_ptr<Operator> make_projector_cuda(const BuildContext& context) {
  return make_projector(context, std::make_unique<VisionCuda>());
}

}  // namespace graft::ops::cuda
