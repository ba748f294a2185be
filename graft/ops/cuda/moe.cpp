#include <string>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/moe_parts.h"

namespace graft::ops::cuda {
namespace {

class MoeCuda final : public Mlp {
 public:
  explicit MoeCuda(const BuildContext& context)
      : module_(context.module),
        device_(context.device),
        gate_(context.child_as<Router>("gate")),
        experts_(context.child_as<Experts>("experts")),
        shared_experts_(shared_experts_of(context)),
        shared_expert_gate_(context.optional_child<Linear>("shared_expert_gate")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t top_k = gate_.top_k();
    const Routing routing = {.expert_ids = pass.workspace.take(DType::I32, {x.rows(), top_k}),
                             .weights = pass.workspace.f32({x.rows(), top_k})};
    gate_.forward(x, routing, pass);
    experts_.begin(x, routing, pass);
    if (shared_experts_ == nullptr) return experts_.end(x, routing, y, pass);
    // The GPU computes these while experts elsewhere are under way.
    const TensorView shared = pass.workspace.f32({x.rows(), y.cols()});
    shared_experts_->forward(x, shared, pass);
    const TensorView gates = pass.workspace.f32({x.rows(), 1});
    if (shared_expert_gate_ != nullptr) shared_expert_gate_->forward(x, gates, pass);
    experts_.end(x, routing, y, pass);
    if (shared_expert_gate_ != nullptr) {
      kernels::cuda::add_gated(gates.f32(), rows_of(shared), rows_of(y), y.rows(), y.cols(),
                               state.stream());
    } else {
      kernels::cuda::add(rows_of(y), rows_of(shared), rows_of(y), y.rows(), y.cols(),
                         state.stream());
    }
  }

 private:
  std::string module_;
  Device device_;
  Router& gate_;
  Experts& experts_;
  Mlp* shared_experts_;         // null: none
  Linear* shared_expert_gate_;  // null: none
};

}  // namespace

std::unique_ptr<Operator> make_moe_cuda(const BuildContext& context) {
  return std::make_unique<MoeCuda>(context);
}

}  // namespace graft::ops::cuda
