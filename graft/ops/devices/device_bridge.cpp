#include "graft/ops/devices/device_bridge.h"

#include <algorithm>
#include <functional>

#include "graft/base/check.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/experts/deferred_experts.h"

namespace graft::ops {
namespace {

// One call of an operator on another device.
class RemoteCall {
 public:
  RemoteCall(const Pass& pass, Device there)
      : devices_(*pass.devices), pass_(on(there, pass)), scope_(pass_.workspace) {}

  Pass& pass() { return pass_; }
  TensorView allocate_like(TensorView y) {
    return pass_.workspace.allocate(y.dtype, {y.rows(), y.cols()});
  }
  TensorView copy_in(TensorView x) {
    const TensorView there = allocate_like(x);
    devices_.copy(x, there);
    return there;
  }
  void copy_out(TensorView from, TensorView to) { devices_.copy(from, to); }

 private:
  PassDevices& devices_;
  Pass pass_;
  Workspace::Scope scope_;
};

// Does not load the operator behind the bridge, which is loaded as a module itself.
template <class Base>
class DeviceBridge : public Base {
 public:
  DeviceBridge(Base& op, Device here, Device there) : op_(op), here_(here), there_(there) {}
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

// Linear, Attention, Mlp: rows in, rows out. Only f32 rows cross between devices.
template <class Base>
class RowsBridge final : public DeviceBridge<Base> {
 public:
  using DeviceBridge<Base>::DeviceBridge;

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    this->expect_here(x.f32);
    RemoteCall call(pass, this->there_);
    const TensorView rows = call.copy_in(x.f32);
    const TensorView result = call.allocate_like(y);
    this->op_.forward(rows, result, call.pass());
    call.copy_out(result, y);
  }
};

class NormBridge final : public DeviceBridge<Norm> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(TensorView x, TensorView y, Pass& pass) override {
    expect_here(x);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x);
    const TensorView result = call.allocate_like(y);
    op_.forward(rows, result, call.pass());
    call.copy_out(result, y);
  }
};

class EmbeddingBridge final : public DeviceBridge<Embedding> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    expect_here(y);
    RemoteCall call(pass, there_);
    const TensorView result = call.allocate_like(y);
    op_.forward(token_ids, result, call.pass());
    call.copy_out(result, y);
  }
};

class RopeBridge final : public DeviceBridge<Rope> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    expect_here(x);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x);
    op_.forward(rows, heads, call.pass());
    call.copy_out(rows, x);
  }
};

class IndexerBridge final : public DeviceBridge<Indexer> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(const Activation& x,
               TensorView q_latents,
               TensorView selected,
               Pass& pass) override {
    expect_here(x.f32);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x.f32);
    const TensorView latents = call.copy_in(q_latents);
    const TensorView result = call.allocate_like(selected);
    op_.forward(rows, latents, result, call.pass());
    call.copy_out(result, selected);
  }
};

class HyperConnectionBridge final : public DeviceBridge<HyperConnection> {
 public:
  using DeviceBridge::DeviceBridge;

  std::int64_t mult() const override { return op_.mult(); }
  void replicate(TensorView x, TensorView streams, Pass& pass) override {
    expect_here(x);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x);
    const TensorView result = call.allocate_like(streams);
    op_.replicate(rows, result, call.pass());
    call.copy_out(result, streams);
  }
  void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) override {
    expect_here(streams);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(streams);
    const TensorView result = call.allocate_like(y);
    const TensorView weights = mix.data == nullptr ? TensorView() : call.allocate_like(mix);
    op_.collapse(rows, result, weights, call.pass());
    call.copy_out(result, y);
    if (mix.data != nullptr) call.copy_out(weights, mix);
  }
  void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) override {
    expect_here(y);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(y);
    const TensorView weights = call.copy_in(mix);
    const TensorView result = call.copy_in(streams);
    op_.add(rows, weights, result, call.pass());
    call.copy_out(result, streams);
  }
};

class RouterBridge final : public DeviceBridge<Router> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(TensorView x, Routing out, Pass& pass) override {
    expect_here(x);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x);
    const Routing routing = {.expert_ids = call.allocate_like(out.expert_ids),
                             .weights = call.allocate_like(out.weights)};
    op_.forward(rows, routing, call.pass());
    call.copy_out(routing.expert_ids, out.expert_ids);
    call.copy_out(routing.weights, out.weights);
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsBridge final : public DeviceBridge<Experts> {
 public:
  using DeviceBridge::DeviceBridge;

  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    expect_here(x.f32);
    RemoteCall call(pass, there_);
    const TensorView rows = call.copy_in(x.f32);
    const Routing chosen = {.expert_ids = call.copy_in(routing.expert_ids),
                            .weights = call.copy_in(routing.weights)};
    const TensorView result = call.allocate_like(y);
    op_.forward(rows, chosen, result, call.pass());
    call.copy_out(result, y);
  }

  // From a device to the CPU: copies run while the caller launches more work on its device, and
  // end() computes on the host while the device executes that work.
  void begin(const Activation& x, Routing routing, Pass& pass) override {
    if (there_ != kCpu) return;
    expect_here(x.f32);
    DeviceContext& device = pass.devices->at(here_);
    mark_ = device.staging().mark();
    rows_ = start_copy(device, x.f32);
    routing_ = {.expert_ids = start_copy(device, routing.expert_ids),
                .weights = start_copy(device, routing.weights)};
    result_ = device.staging().allocate(DType::F32, {x.rows(), x.cols()});
    if (!device.is_capturing()) return;
    // Captured by value: at replay this object may hold the state of another pass.
    std::function<void()> later;
    if (pass.deferred != nullptr) later = [pass] { compute_deferred(pass); };
    device.graph_capture()->host_call([&op = op_, rows = rows_, chosen = routing_, result = result_,
                                       pass] { compute(op, rows, chosen, result, pass); },
                                      later);
  }

  void end(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    if (there_ != kCpu) return forward(x, routing, y, pass);
    DeviceContext& device = pass.devices->at(here_);
    if (device.is_capturing()) {
      device.graph_capture()->join_host_call();
    } else {
      compute_deferred(pass);  // of the layer before, while the device runs up to the copies
      device.finish_copies_out();
      compute(op_, rows_, routing_, result_, pass);
    }
    device.copy_in(result_, y);
    device.staging().free_to(mark_);
  }

 private:
  // Without the padding rows of the batch, at the end: each would read top_k experts for nothing.
  static void compute(
      Experts& op, TensorView rows, Routing routing, TensorView result, const Pass& pass) {
    const std::int64_t count = rows.rows() - pass.batch.num_padding;
    const auto real = [&](TensorView all) { return all.slice(0, count); };
    RemoteCall call(pass, kCpu);
    op.forward(real(rows),
               {.expert_ids = real(routing.expert_ids), .weights = real(routing.weights)},
               real(result), call.pass());
    const TensorView padding = result.slice(count, pass.batch.num_padding);
    std::fill_n(padding.f32(), padding.num_elems(), 0.0F);
  }
  static void compute_deferred(const Pass& pass) {
    if (pass.deferred == nullptr) return;
    RemoteCall call(pass, kCpu);
    pass.deferred->run(call.pass());
  }
  static TensorView start_copy(DeviceContext& device, TensorView from) {
    const TensorView to = device.staging().allocate(from.dtype, {from.rows(), from.cols()});
    device.start_copy_out(from, to);
    return to;
  }

  // Valid between begin() and end(), in staging memory.
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
  return made<Base, RowsBridge<Base>>(op, here, there);
}

}  // namespace

std::unique_ptr<Operator> for_caller_on(Device here, Operator& op, Device there, Role role) {
  switch (role) {
    case Role::Embedding:
      return made<Embedding, EmbeddingBridge>(op, here, there);
    case Role::Norm:
      return made<Norm, NormBridge>(op, here, there);
    case Role::Linear:
      return of_rows<Linear>(op, here, there);
    case Role::Rope:
      return made<Rope, RopeBridge>(op, here, there);
    case Role::Attention:
      return of_rows<Attention>(op, here, there);
    case Role::Indexer:
      return made<Indexer, IndexerBridge>(op, here, there);
    case Role::HyperConnection:
      return made<HyperConnection, HyperConnectionBridge>(op, here, there);
    case Role::Mlp:
    case Role::Moe:
      return of_rows<Mlp>(op, here, there);
    case Role::Router:
      return made<Router, RouterBridge>(op, here, there);
    case Role::Experts:
      return made<Experts, ExpertsBridge>(op, here, there);
    case Role::Model:
    case Role::Layer:
    case Role::Compressor:  // attention reads its cache
    case Role::KvCache:
    case Role::StateCache:
    case Role::VisionTower:
    case Role::Projector:
      return nullptr;
  }
  return nullptr;
}

}  // namespace graft::ops
