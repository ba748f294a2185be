// Gated delta rule: attention with a recurrent state.

#include <array>
#include <string>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class DeltaNetModule final : public Attention {
 public:
  explicit DeltaNetModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<DeltaNetParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        in_proj_qkv_(context.child_as<Linear>("in_proj_qkv")),
        in_proj_z_(context.child_as<Linear>("in_proj_z")),
        in_proj_b_(context.child_as<Linear>("in_proj_b")),
        in_proj_a_(context.child_as<Linear>("in_proj_a")),
        out_proj_(context.child_as<Linear>("out_proj")),
        core_(primitives_.make_delta_net(context)) {}

  void load(WeightProvider& weights) override { core_->load(weights); }
  void unload() override { core_->unload(); }

  ActivationFormat input_format(std::int64_t rows) const override {
    return in_proj_qkv_->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rows = x.rows();
    const DeltaNetInput in = {.qkv = pass.workspace.f32({rows, params_.conv_channels()}),
                              .z = pass.workspace.f32({rows, params_.value_size()}),
                              .b = pass.workspace.f32({rows, params_.num_value_heads}),
                              .a = pass.workspace.f32({rows, params_.num_value_heads})};
    const std::array projections = {LinearCall{in_proj_qkv_, in.qkv}, LinearCall{in_proj_z_, in.z},
                                    LinearCall{in_proj_b_, in.b}, LinearCall{in_proj_a_, in.a}};
    primitives_.linear_group(x, projections, pass);
    const TensorView heads = pass.workspace.f32({rows, params_.value_size()});
    core_->forward(in, heads, pass);
    out_proj_->apply(heads, y, pass);
  }

 private:
  std::string module_;
  DeltaNetParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> in_proj_qkv_;
  Child<Linear> in_proj_z_;
  Child<Linear> in_proj_b_;
  Child<Linear> in_proj_a_;
  Child<Linear> out_proj_;
  std::unique_ptr<DeltaNetCore> core_;
};

}  // namespace

std::unique_ptr<Operator> make_delta_net(const BuildContext& context) {
  return std::make_unique<DeltaNetModule>(context);
}

}  // namespace graft::ops
