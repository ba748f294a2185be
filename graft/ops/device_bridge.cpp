#include "graft/ops/device_bridge.h"

#include "graft/base/check.h"
#include "graft/ops/device_state.h"

namespace graft::ops {
namespace {

// One call of an operator on another device.
class Visit {
 public:
  Visit(const Pass& pass, Device there)
      : devices_(*pass.devices), pass_(on(there, pass)), scope_(pass_.workspace) {}

  Pass& pass() { return pass_; }
  TensorView room_for(TensorView y) { return pass_.workspace.take(y.dtype, {y.rows(), y.cols()}); }
  TensorView bring(TensorView x) {
    const TensorView there = room_for(x);
    devices_.copy(x, there);
    return there;
  }
  void send(TensorView from, TensorView to) { devices_.copy(from, to); }

 private:
  PassDevices& devices_;
  Pass pass_;
  Workspace::Scope scope_;
};

// What all crossings are made of. The operator behind is loaded by itself.
template <class Base>
class Crossing : public Base {
 public:
  Crossing(Base& op, Device here, Device there) : op_(op), here_(here), there_(there) {}
  void load(WeightProvider& /*weights*/) override {}

 protected:
  void expect_here(TensorView x) const {
    GRAFT_CHECK(x.device == here_, "rows on ", to_string(x.device), ", expected on ",
                to_string(here_));
  }

  Base& op_;
  Device here_;
  Device there_;
};

// Norm, Linear, Attention, Mlp: rows in, rows out.
template <class Base>
class RowsCrossing final : public Crossing<Base> {
 public:
  using Crossing<Base>::Crossing;

  void forward(TensorView x, TensorView y, Pass& pass) override {
    this->expect_here(x);
    Visit visit(pass, this->there_);
    const TensorView rows = visit.bring(x);
    const TensorView result = visit.room_for(y);
    this->op_.forward(rows, result, visit.pass());
    visit.send(result, y);
  }
};

class EmbeddingCrossing final : public Crossing<Embedding> {
 public:
  using Crossing::Crossing;

  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    expect_here(y);
    Visit visit(pass, there_);
    const TensorView result = visit.room_for(y);
    op_.forward(token_ids, result, visit.pass());
    visit.send(result, y);
  }
};

class RopeCrossing final : public Crossing<Rope> {
 public:
  using Crossing::Crossing;

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    expect_here(x);
    Visit visit(pass, there_);
    const TensorView rows = visit.bring(x);
    op_.forward(rows, heads, visit.pass());
    visit.send(rows, x);
  }
};

class RouterCrossing final : public Crossing<Router> {
 public:
  using Crossing::Crossing;

  void forward(TensorView x, Routing out, Pass& pass) override {
    expect_here(x);
    Visit visit(pass, there_);
    const TensorView rows = visit.bring(x);
    const Routing routing = {.expert_ids = visit.room_for(out.expert_ids),
                             .weights = visit.room_for(out.weights)};
    op_.forward(rows, routing, visit.pass());
    visit.send(routing.expert_ids, out.expert_ids);
    visit.send(routing.weights, out.weights);
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsCrossing final : public Crossing<Experts> {
 public:
  using Crossing::Crossing;

  void forward(TensorView x, Routing routing, TensorView y, Pass& pass) override {
    expect_here(x);
    Visit visit(pass, there_);
    const TensorView rows = visit.bring(x);
    const Routing chosen = {.expert_ids = visit.bring(routing.expert_ids),
                            .weights = visit.bring(routing.weights)};
    const TensorView result = visit.room_for(y);
    op_.forward(rows, chosen, result, visit.pass());
    visit.send(result, y);
  }

  // From a device to the processor: the copies are under way while the caller gives its device more
  // to do, and end() computes here while the device does that.
  void begin(TensorView x, Routing routing, Pass& pass) override {
    if (there_ != kCpu) return;
    expect_here(x);
    DeviceState& state = pass.devices->at(here_);
    mark_ = state.staging().mark();
    rows_ = start_copy(state, x);
    routing_ = {.expert_ids = start_copy(state, routing.expert_ids),
                .weights = start_copy(state, routing.weights)};
    result_ = state.staging().take(x.dtype, {x.rows(), x.cols()});
    if (!state.is_capturing()) return;
    // At a replay this object may be in another pass: all it needs goes along.
    state.host_call([&op = op_, rows = rows_, chosen = routing_, result = result_, pass] {
      Visit visit(pass, kCpu);
      op.forward(rows, chosen, result, visit.pass());
    });
  }

  void end(TensorView x, Routing routing, TensorView y, Pass& pass) override {
    if (there_ != kCpu) return forward(x, routing, y, pass);
    DeviceState& state = pass.devices->at(here_);
    if (state.is_capturing()) {
      state.join_host_call();
    } else {
      state.finish_copies_out();
      Visit visit(pass, there_);
      op_.forward(rows_, routing_, result_, visit.pass());
    }
    state.copy_in(result_, y);
    state.staging().free_to(mark_);
  }

 private:
  static TensorView start_copy(DeviceState& state, TensorView from) {
    const TensorView to = state.staging().take(from.dtype, {from.rows(), from.cols()});
    state.start_copy_out(from, to);
    return to;
  }

  // Between begin() and end().
  Workspace::Mark mark_;
  TensorView rows_;
  Routing routing_;
  TensorView result_;
};

template <class Base, class Made>
std::unique_ptr<Operator> made(Operator& op, Device here, Device there) {
  return std::make_unique<Made>(dynamic_cast<Base&>(op), here, there);
}

template <class Base>
std::unique_ptr<Operator> of_rows(Operator& op, Device here, Device there) {
  return made<Base, RowsCrossing<Base>>(op, here, there);
}

}  // namespace

std::unique_ptr<Operator> for_caller_on(Device here, Operator& op, Device there, Role role) {
  switch (role) {
    case Role::Embedding:
      return made<Embedding, EmbeddingCrossing>(op, here, there);
    case Role::Norm:
      return of_rows<Norm>(op, here, there);
    case Role::Linear:
      return of_rows<Linear>(op, here, there);
    case Role::Rope:
      return made<Rope, RopeCrossing>(op, here, there);
    case Role::Attention:
      return of_rows<Attention>(op, here, there);
    case Role::Mlp:
    case Role::Moe:
      return of_rows<Mlp>(op, here, there);
    case Role::Router:
      return made<Router, RouterCrossing>(op, here, there);
    case Role::Experts:
      return made<Experts, ExpertsCrossing>(op, here, there);
    case Role::Model:
    case Role::Layer:
    case Role::KvCache:
      return nullptr;
  }
  return nullptr;
}

}  // namespace graft::ops
