#include <algorithm>
#include <string>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/moe_parts.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

class MoeCpu final : public Mlp {
 public:
  explicit MoeCpu(const BuildContext& context)
      : module_(context.module),
        gate_(context.child_as<Router>("gate")),
        experts_(context.child_as<Experts>("experts")),
        shared_experts_(shared_experts_of(context)),
        shared_expert_gate_(context.optional_child<Linear>("shared_expert_gate")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children have them all

  void forward(TensorView x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t top_k = gate_.top_k();
    const Routing routing = {.expert_ids = pass.workspace.take(DType::I32, {x.rows(), top_k}),
                             .weights = pass.workspace.f32({x.rows(), top_k})};
    gate_.forward(x, routing, pass);
    experts_.begin(x, routing, pass);
    if (shared_experts_ == nullptr) return experts_.end(x, routing, y, pass);
    const TensorView shared = pass.workspace.f32({x.rows(), y.cols()});
    shared_experts_->forward(x, shared, pass);
    experts_.end(x, routing, y, pass);
    add_shared(x, shared, y, pass);
  }

 private:
  // y += shared, times sigmoid(gate(x)) where there is such a gate
  void add_shared(TensorView x, TensorView shared, TensorView y, Pass& pass) {
    const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
    const TensorView factors = pass.workspace.f32({x.rows(), 1});
    std::fill_n(factors.f32(), x.rows(), 1.0F);
    if (shared_expert_gate_ != nullptr) {
      shared_expert_gate_->forward(x, factors, pass);
      math.sigmoid(factors.f32(), x.rows());
    }
    for (std::int64_t row = 0; row < x.rows(); ++row)
      math.axpy(factors.f32()[row], shared.f32_row(row), y.f32_row(row), y.cols());
  }

  std::string module_;
  Router& gate_;
  Experts& experts_;
  Mlp* shared_experts_;         // null: none
  Linear* shared_expert_gate_;  // null: none
};

}  // namespace

std::unique_ptr<Operator> make_moe_cpu(const BuildContext& context) {
  return std::make_unique<MoeCpu>(context);
}

}  // namespace graft::ops::cpu
