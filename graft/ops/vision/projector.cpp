#include <string>
#include <utility>
#include <vector>

#include "graft/ops/profiler.h"
#include "graft/ops/vision/vision_linear.h"
#include "graft/ops/vision/vision_modules.h"

namespace graft::ops {
namespace {

class MlpProjector final : public Projector {
 public:
  MlpProjector(const BuildContext& context, std::unique_ptr<VisionPrimitives> primitives)
      : module_(context.module),
        params_(context.params_as<ProjectorParams>()),
        device_(context.device),
        primitives_(std::move(primitives)),
        linear_1_(make_vision_linear(context,
                                     *primitives_,
                                     "linear_1",
                                     {.in_features = params_.in_features,
                                      .out_features = params_.hidden_size,
                                      .bias = params_.bias})),
        linear_2_(make_vision_linear(context,
                                     *primitives_,
                                     "linear_2",
                                     {.in_features = params_.hidden_size,
                                      .out_features = params_.hidden_size,
                                      .bias = params_.bias})) {}

  void load(WeightProvider& weights) override {
    linear_1_->load(weights);
    linear_2_->load(weights);
    if (params_.has_newline) newline_ = load_vector(weights, "image_newline", params_.hidden_size);
  }
  void unload() override {
    linear_1_->unload();
    linear_2_->unload();
    newline_ = {};
  }

  void forward(TensorView features, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView inner = pass.workspace.f32({features.rows(), params_.hidden_size});
    linear_1_->forward(features, inner, pass);
    primitives_->activate(inner, params_.activation, pass);
    linear_2_->forward(inner, y, pass);
  }

  std::span<const float> newline() const override { return newline_; }

 private:
  std::string module_;
  ProjectorParams params_;
  Device device_;
  std::unique_ptr<VisionPrimitives> primitives_;
  std::unique_ptr<Linear> linear_1_;
  std::unique_ptr<Linear> linear_2_;
  std::vector<float> newline_;
};

}  // namespace

std::unique_ptr<Operator> make_projector(const BuildContext& context,
                                         std::unique_ptr<VisionPrimitives> primitives) {
  return std::make_unique<MlpProjector>(context, std::move(primitives));
}

}  // namespace graft::ops
