#include <string>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/linear_cuda.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

class MlpCuda final : public Mlp {
 public:
  explicit MlpCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlpParams>()),
        device_(context.device),
        gate_proj_(context.child_as<Linear>("gate_proj")),
        up_proj_(context.child_as<Linear>("up_proj")),
        down_proj_(context.child_as<Linear>("down_proj")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView gate = pass.workspace.f32({x.rows(), params_.intermediate_size});
    const TensorView up = pass.workspace.f32({x.rows(), params_.intermediate_size});
    forward_together(x, {{&gate_proj_, gate}, {&up_proj_, up}}, device_, pass);
    cuda::silu_mul(rows_of(gate), rows_of(up), rows_of(gate), gate.rows(), gate.cols(),
                   state.stream());
    down_proj_.forward(gate, y, pass);
  }

 private:
  std::string module_;
  MlpParams params_;
  Device device_;
  Linear& gate_proj_;
  Linear& up_proj_;
  Linear& down_proj_;
};

}  // namespace

std::unique_ptr<Operator> make_mlp_cuda(const BuildContext& context) {
  return std::make_unique<MlpCuda>(context);
}

}  // namespace graft::ops
