// The dense feed-forward block: down(silu(gate(x)) * up(x)), or with GELU.

#include <array>
#include <string>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

class MlpModule final : public Mlp {
 public:
  explicit MlpModule(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlpParams>()),
        device_(context.device),
        primitives_(*context.primitives),
        gate_proj_(context.child_as<Linear>("gate_proj")),
        up_proj_(context.child_as<Linear>("up_proj")),
        down_proj_(context.child_as<Linear>("down_proj")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children load theirs

  ActivationFormat input_format(std::int64_t rows) const override {
    return gate_proj_->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView gate = pass.workspace.f32({x.rows(), params_.intermediate_size});
    const TensorView up = pass.workspace.f32({x.rows(), params_.intermediate_size});
    if (params_.limit > 0.0F) {
      forward_limited(x, gate, up, pass);
      return down_proj_->apply(gate, y, pass);
    }
    const Activation inner =
        primitives_.gate_up(x, {gate_proj_, gate}, {up_proj_, up}, params_.gate,
                            down_proj_->wanted_format(x.rows(), pass), pass);
    down_proj_->apply(inner, y, pass);
  }

 private:
  // gate = silu(gate(x)) * up(x) with limited factors.
  void forward_limited(const Activation& x, TensorView gate, TensorView up, Pass& pass) {
    const std::array calls = {LinearCall{gate_proj_, gate}, LinearCall{up_proj_, up}};
    primitives_.linear_group(x, calls, pass);
    primitives_.limited_silu_mul(gate, up, params_.limit, pass);
  }

  std::string module_;
  MlpParams params_;
  Device device_;
  Primitives& primitives_;
  Child<Linear> gate_proj_;
  Child<Linear> up_proj_;
  Child<Linear> down_proj_;
};

}  // namespace

std::unique_ptr<Operator> make_mlp(const BuildContext& context) {
  return std::make_unique<MlpModule>(context);
}

}  // namespace graft::ops
