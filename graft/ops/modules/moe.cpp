// The sparse feed-forward block: router, routed experts and shared experts.

#include <string>
#include <variant>

#include "graft/ops/modules/modules.h"
#include "graft/ops/primitives.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

// DeepSeek and GLM call them shared_experts, Qwen shared_expert.
Child<Mlp> shared_experts_of(const BuildContext& context) {
  const Child<Mlp> shared = context.optional_child<Mlp>("shared_experts");
  return shared ? shared : context.optional_child<Mlp>("shared_expert");
}

// GPT-OSS and Llama 4 call it router, the others gate.
Child<Router> router_of(const BuildContext& context) {
  const Child<Router> router = context.optional_child<Router>("router");
  return router ? router : context.child_as<Router>("gate");
}

bool scales_input(const Params& params) {
  const auto* experts = std::get_if<ExpertsParams>(&params);
  return experts != nullptr && experts->scales_input;
}

class MoeModule final : public Mlp {
 public:
  explicit MoeModule(const BuildContext& context)
      : module_(context.module),
        device_(context.device),
        primitives_(*context.primitives),
        scales_input_(scales_input(*context.params)),
        gate_(router_of(context)),
        experts_(context.child_as<Experts>("experts")),
        shared_experts_(shared_experts_of(context)),
        shared_expert_gate_(context.optional_child<Linear>("shared_expert_gate")) {}

  void load(WeightProvider& /*weights*/) override {}  // the children load theirs

  ActivationFormat input_format(std::int64_t rows) const override {
    // Scaled rows are another tensor than x.
    const ActivationFormat routed =
        scales_input_ ? ActivationFormat::F32 : experts_->input_format(rows);
    if (routed != ActivationFormat::F32 || !shared_experts_) return routed;
    return shared_experts_->input_format(rows);
  }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t top_k = gate_->top_k();
    const Routing routing = {.expert_ids = pass.workspace.allocate(DType::I32, {x.rows(), top_k}),
                             .weights = pass.workspace.f32({x.rows(), top_k})};
    gate_->forward(x.f32, routing, pass);
    const Activation routed = scales_input_ ? scaled(x.f32, routing, pass) : x;
    experts_->begin(routed, routing, pass);
    if (!shared_experts_) return experts_->end(routed, routing, y, pass);
    // This device computes the shared experts while routed experts run on another one.
    const TensorView shared = pass.workspace.f32({x.rows(), y.cols()});
    shared_experts_->forward(x, shared, pass);
    TensorView gates;
    if (shared_expert_gate_) {
      gates = pass.workspace.f32({x.rows(), 1});
      shared_expert_gate_->apply(x, gates, pass);
    }
    experts_->end(routed, routing, y, pass);
    primitives_.add_gated(y, shared, gates, pass);
  }

 private:
  TensorView scaled(TensorView x, const Routing& routing, Pass& pass) {
    const TensorView rows = pass.workspace.f32({x.rows(), x.cols()});
    primitives_.scale_rows(x, routing.weights, rows, pass);
    return rows;
  }

  std::string module_;
  Device device_;
  Primitives& primitives_;
  bool scales_input_;  // ExpertsParams
  Child<Router> gate_;
  Child<Experts> experts_;
  Child<Mlp> shared_experts_;         // optional
  Child<Linear> shared_expert_gate_;  // optional
};

}  // namespace

std::unique_ptr<Operator> make_moe(const BuildContext& context) {
  return std::make_unique<MoeModule>(context);
}

}  // namespace graft::ops
