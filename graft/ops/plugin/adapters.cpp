#include "graft/ops/plugin/adapters.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/ops/plugin/children.h"
#include "graft/ops/plugin/pass.h"
#include "graft/ops/profiler.h"

namespace graft::ops {
namespace {

plugin::Rows rows_of(TensorView x) {
  return {.data = x.f32(), .rows = x.rows(), .cols = x.cols()};
}

plugin::Routing routing_of(const Routing& routing) {
  return {.expert_ids = routing.expert_ids.as<std::int32_t>(),
          .weights = routing.weights.f32(),
          .top_k = routing.expert_ids.cols()};
}

// The operator that a plugin's factory made for a module.
struct PluginInstance {
  std::string module;
  std::vector<std::unique_ptr<plugin::Operator>>
      children;  // called by `op`, so declared before it and destroyed after it
  std::unique_ptr<plugin::Operator> op;
};

// Wraps an operator of a plugin (PluginOp) as an ops::Operator of the same role (Role).
template <class Role, class Wrapped>
class FromPlugin : public Role {
 public:
  using PluginOp = Wrapped;

  FromPlugin(PluginInstance instance, PluginOp& op) : instance_(std::move(instance)), op_(op) {}

  void load(WeightProvider& weights) override {
    PluginWeights plugin_weights(weights);
    op_.load(plugin_weights);
  }
  void unload() override { op_.unload(); }

 protected:
  // Times one call of forward() and frees its scratch memory at the end.
  struct Call {
    Call(const FromPlugin& of, Pass& outer)
        : profile(outer, kCpu, of.instance_.module), pass(outer) {}

    ProfileScope profile;
    PluginPass pass;
  };

  PluginInstance instance_;
  PluginOp& op_;
};

// Linear, Attention, Mlp: rows in, rows out. input_format() is F32, so the rows exist as floats.
template <class Role, class PluginOp>
class RowsFromPlugin final : public FromPlugin<Role, PluginOp> {
 public:
  using FromPlugin<Role, PluginOp>::FromPlugin;

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    typename FromPlugin<Role, PluginOp>::Call call(*this, pass);
    this->op_.forward(rows_of(x.f32), rows_of(y), call.pass);
  }
};

class NormFromPlugin final : public FromPlugin<Norm, plugin::Norm> {
 public:
  using FromPlugin::FromPlugin;

  void forward(TensorView x, TensorView y, Pass& pass) override {
    Call call(*this, pass);
    op_.forward(rows_of(x), rows_of(y), call.pass);
  }
};

class EmbeddingFromPlugin final : public FromPlugin<Embedding, plugin::Embedding> {
 public:
  using FromPlugin::FromPlugin;

  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    Call call(*this, pass);
    op_.forward(token_ids, rows_of(y), call.pass);
  }
};

class RopeFromPlugin final : public FromPlugin<Rope, plugin::Rope> {
 public:
  using FromPlugin::FromPlugin;

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    Call call(*this, pass);
    op_.forward(rows_of(x),
                {.num_heads = heads.num_heads, .head_dim = heads.head_dim, .offset = heads.offset},
                call.pass);
  }
};

class RouterFromPlugin final : public FromPlugin<Router, plugin::Router> {
 public:
  using FromPlugin::FromPlugin;

  void forward(TensorView x, Routing out, Pass& pass) override {
    Call call(*this, pass);
    op_.forward(rows_of(x), routing_of(out), call.pass);
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsFromPlugin final : public FromPlugin<Experts, plugin::Experts> {
 public:
  using FromPlugin::FromPlugin;

  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    Call call(*this, pass);
    op_.forward(rows_of(x.f32), routing_of(routing), rows_of(y), call.pass);
  }
};

using Infos = std::vector<const OperatorInfo*>;

class PluginBuildContext final : public plugin::BuildContext {
 public:
  PluginBuildContext(const ops::BuildContext& context, const Infos& others)
      : context_(context), others_(others) {}

  const std::string& module() const override { return context_.module; }
  const Params& params() const override { return *context_.params; }
  std::string text_kwarg(std::string_view key, std::string_view fallback) const override {
    return context_.text_kwarg(key, fallback);
  }
  bool bool_kwarg(std::string_view key, bool fallback) const override {
    return context_.bool_kwarg(key, fallback);
  }
  std::int64_t int_kwarg(std::string_view key, std::int64_t fallback) const override {
    return context_.int_kwarg(key, fallback);
  }
  double double_kwarg(std::string_view key, double fallback) const override {
    return context_.double_kwarg(key, fallback);
  }

  std::vector<std::unique_ptr<plugin::Operator>> take_children() { return std::move(children_); }

 private:
  plugin::Operator* find_child(std::string_view name) const override {
    const Child<Operator> found = context_.child ? context_.child(name) : Child<Operator>{};
    if (!found) return nullptr;
    children_.push_back(for_plugin(*found));
    return children_.back().get();
  }

  std::unique_ptr<plugin::Operator> make_operator(std::string_view name) const override {
    const auto found = std::ranges::find_if(others_, [&](const OperatorInfo* info) {
      return info->name == name && info->device == DeviceType::Cpu &&
             (!info->fits || info->fits(params()));
    });
    if (found == others_.end()) {
      fail(context_.module, ": operator '", name,
           "' to wrap: not found on the CPU for this role and module");
    }
    return for_plugin((*found)->make(context_));
  }

  const ops::BuildContext& context_;
  const Infos& others_;  // operators of the same role, which the plugin may wrap
  mutable std::vector<std::unique_ptr<plugin::Operator>> children_;
};

Role role_of(plugin::Role role) {
  switch (role) {
    case plugin::Role::Embedding:
      return Role::Embedding;
    case plugin::Role::Norm:
      return Role::Norm;
    case plugin::Role::Linear:
      return Role::Linear;
    case plugin::Role::Rope:
      return Role::Rope;
    case plugin::Role::Attention:
      return Role::Attention;
    case plugin::Role::Mlp:
      return Role::Mlp;
    case plugin::Role::Moe:
      return Role::Moe;
    case plugin::Role::Router:
      return Role::Router;
    case plugin::Role::Experts:
      return Role::Experts;
  }
  fail("plugin operator has unknown role ", static_cast<int>(role));
}

// Null when the plugin made an operator of another role.
template <class Adapter>
std::unique_ptr<Operator> adapt(PluginInstance instance) {
  auto* op = dynamic_cast<typename Adapter::PluginOp*>(instance.op.get());
  if (op == nullptr) return nullptr;
  return std::make_unique<Adapter>(std::move(instance), *op);
}

std::unique_ptr<Operator> from_plugin(Role role, PluginInstance instance) {
  switch (role) {
    case Role::Embedding:
      return adapt<EmbeddingFromPlugin>(std::move(instance));
    case Role::Norm:
      return adapt<NormFromPlugin>(std::move(instance));
    case Role::Linear:
      return adapt<RowsFromPlugin<Linear, plugin::Linear>>(std::move(instance));
    case Role::Rope:
      return adapt<RopeFromPlugin>(std::move(instance));
    case Role::Attention:
      return adapt<RowsFromPlugin<Attention, plugin::Attention>>(std::move(instance));
    case Role::Mlp:
    case Role::Moe:
      return adapt<RowsFromPlugin<Mlp, plugin::Mlp>>(std::move(instance));
    case Role::Router:
      return adapt<RouterFromPlugin>(std::move(instance));
    case Role::Experts:
      return adapt<ExpertsFromPlugin>(std::move(instance));
    case Role::Model:
    case Role::Layer:
    case Role::Indexer:
    case Role::Compressor:
    case Role::HyperConnection:
    case Role::KvCache:
    case Role::StateCache:
    case Role::VisionTower:
    case Role::Projector:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

OperatorInfo plugin_operator(plugin::Registration registration, const Registry& registry) {
  const Role role = role_of(registration.role);
  std::vector<Kwarg> kwargs;  // any text: plugins declare keys only
  for (std::string& key : registration.kwargs)
    kwargs.push_back({.key = std::move(key)});
  OperatorInfo info{.name = std::move(registration.name),
                    .role = role,
                    .device = DeviceType::Cpu,
                    .summary = std::move(registration.summary),
                    .kwargs = std::move(kwargs),
                    .fits = std::move(registration.fits)};
  info.make = [name = info.name, role, make = std::move(registration.make),
               others = registry.of_role(role)](const BuildContext& context) {
    PluginBuildContext plugin_context(context, others);
    PluginInstance instance{.module = context.module, .children = {}, .op = make(plugin_context)};
    instance.children = plugin_context.take_children();
    auto op = from_plugin(role, std::move(instance));
    if (op == nullptr)
      fail(context.module, ": ", name, " did not return an operator of role ", ops::name(role));
    return op;
  };
  return info;
}

}  // namespace graft::ops
