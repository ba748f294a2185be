#include <string>

#include "graft/ops/cpu/linear.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

class MlpCpu final : public Mlp {
 public:
  explicit MlpCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlpParams>()),
        gate_proj_(context.child_as<Linear>("gate_proj")),
        up_proj_(context.child_as<Linear>("up_proj")),
        down_proj_(context.child_as<Linear>("down_proj")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView gate = pass.workspace.f32({x.rows(), params_.intermediate_size});
    const TensorView up = pass.workspace.f32({x.rows(), params_.intermediate_size});
    forward_gated(x, {&gate_proj_, gate}, {&up_proj_, up}, pass);
    down_proj_.forward(gate, y, pass);
  }

 private:
  std::string module_;
  MlpParams params_;
  Linear& gate_proj_;
  Linear& up_proj_;
  Linear& down_proj_;
};

}  // namespace

std::unique_ptr<Operator> make_mlp_cpu(const BuildContext& context) {
  return std::make_unique<MlpCpu>(context);
}

}  // namespace graft::ops::cpu
