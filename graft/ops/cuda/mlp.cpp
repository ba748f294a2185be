#include <string>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/linear.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

class MlpCuda final : public Mlp {
 public:
  explicit MlpCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<MlpParams>()),
        device_(context.device),
        gate_proj_(context.child_as<Linear>("gate_proj")),
        up_proj_(context.child_as<Linear>("up_proj")),
        down_proj_(context.child_as<Linear>("down_proj")),
        down_here_(dynamic_cast<LinearCuda*>(&down_proj_)) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView gate = pass.workspace.f32({x.rows(), params_.intermediate_size});
    const TensorView up = pass.workspace.f32({x.rows(), params_.intermediate_size});
    forward_grouped(x, {{&gate_proj_, gate}, {&up_proj_, up}}, device_, pass);
    if (project_bytes(gate, up, y, state, pass)) return;
    kernels::cuda::silu_mul(rows_of(gate), rows_of(up), rows_of(gate), gate.rows(), gate.cols(),
                            state.stream());
    down_proj_.forward(gate, y, pass);
  }

 private:
  // Where the last product takes bytes, silu(gate) * up is rounded as it is made. False: it does
  // not.
  bool project_bytes(
      TensorView gate, TensorView up, TensorView y, CudaState& state, Pass& pass) const {
    if (down_here_ == nullptr || pass.profiler != nullptr) return false;
    const Product product = down_here_->product(y);
    if (!is_as_bytes(gate.rows(), gate.cols(), product)) return false;
    const auto bytes =
        static_cast<std::int64_t>(kernels::cuda::q8_rows_bytes(gate.rows(), gate.cols()));
    const TensorView memory = pass.workspace.take(DType::U8, {bytes});
    const kernels::cuda::Q8Rows x =
        kernels::cuda::q8_rows_at(memory.data, gate.rows(), gate.cols());
    kernels::cuda::silu_mul_q8(rows_of(gate), rows_of(up), x, gate.rows(), gate.cols(),
                               state.stream());
    multiply_bytes(x, gate.rows(), product, state);
    return true;
  }

  std::string module_;
  MlpParams params_;
  Device device_;
  Linear& gate_proj_;
  Linear& up_proj_;
  Linear& down_proj_;
  LinearCuda* down_here_;  // the same; null: another kind of operator
};

}  // namespace

std::unique_ptr<Operator> make_mlp_cuda(const BuildContext& context) {
  return std::make_unique<MlpCuda>(context);
}

}  // namespace graft::ops::cuda
