#include "graft/ops/plugin/children.h"

#include <span>
#include <utility>

#include "graft/base/check.h"
#include "graft/ops/plugin/pass.h"

namespace graft::ops {
namespace {

// The const_cast is safe: TensorView has no const variant, and operators do not write to inputs.
TensorView view_of(const plugin::ConstRows& x) {
  return {const_cast<float*>(x.data), DType::F32, {x.rows, x.cols}};
}

Routing view_of(const plugin::Routing& routing, std::int64_t rows) {
  return {.expert_ids = {routing.expert_ids, DType::I32, {rows, routing.top_k}},
          .weights = {routing.weights, DType::F32, {rows, routing.top_k}}};
}

// Wraps an ops::Operator (Op) in the plugin interface of its role (Role). The operator is a child,
// which graft loads, or owned by the plugin.
template <class Role, class Wrapped>
class ForPlugin : public Role {
 public:
  using Op = Wrapped;

  ForPlugin(Op& op, std::unique_ptr<Operator> owned) : op_(op), owned_(std::move(owned)) {}

  void load(plugin::Weights& weights) override {
    if (owned_) owned_->load(PluginWeights::of(weights));
  }
  void unload() override {
    if (owned_) owned_->unload();
  }

 protected:
  Op& op_;
  std::unique_ptr<Operator> owned_;  // null: a child, owned by graft
};

// Norm, Linear, Attention, Mlp.
template <class Role, class Op>
class RowsForPlugin final : public ForPlugin<Role, Op> {
 public:
  using ForPlugin<Role, Op>::ForPlugin;

  void forward(plugin::ConstRows x, plugin::Rows y, plugin::Pass& pass) override {
    this->op_.forward(view_of(x), view_of(y), PluginPass::of(pass));
  }
};

class EmbeddingForPlugin final : public ForPlugin<plugin::Embedding, Embedding> {
 public:
  using ForPlugin::ForPlugin;

  void forward(std::span<const std::int32_t> token_ids,
               plugin::Rows y,
               plugin::Pass& pass) override {
    op_.forward(token_ids, view_of(y), PluginPass::of(pass));
  }
};

class RopeForPlugin final : public ForPlugin<plugin::Rope, Rope> {
 public:
  using ForPlugin::ForPlugin;

  void forward(plugin::Rows x, const plugin::Heads& heads, plugin::Pass& pass) override {
    op_.forward(view_of(x),
                {.num_heads = heads.num_heads, .head_dim = heads.head_dim, .offset = heads.offset},
                PluginPass::of(pass));
  }
};

class RouterForPlugin final : public ForPlugin<plugin::Router, Router> {
 public:
  using ForPlugin::ForPlugin;

  void forward(plugin::ConstRows x, const plugin::Routing& out, plugin::Pass& pass) override {
    op_.forward(view_of(x), view_of(out, x.rows), PluginPass::of(pass));
  }
  std::int64_t top_k() const override { return op_.top_k(); }
};

class ExpertsForPlugin final : public ForPlugin<plugin::Experts, Experts> {
 public:
  using ForPlugin::ForPlugin;

  void forward(plugin::ConstRows x,
               const plugin::Routing& routing,
               plugin::Rows y,
               plugin::Pass& pass) override {
    op_.forward(view_of(x), view_of(routing, x.rows), view_of(y), PluginPass::of(pass));
  }
};

class KvCacheForPlugin final : public ForPlugin<plugin::KvCache, KvCache> {
 public:
  using ForPlugin::ForPlugin;

  void write(plugin::ConstRows key, plugin::ConstRows value, plugin::Pass& pass) override {
    op_.write(view_of(key), view_of(value), PluginPass::of(pass));
  }
  void read_keys(std::size_t sequence,
                 const Part& part,
                 float* out,
                 const plugin::Pass& pass) const override {
    op_.read_keys(PluginPass::of(pass).batch.sequences[sequence], part_of(part), out);
  }
  void read_values(std::size_t sequence,
                   const Part& part,
                   float* out,
                   const plugin::Pass& pass) const override {
    op_.read_values(PluginPass::of(pass).batch.sequences[sequence], part_of(part), out);
  }

 private:
  static ops::KvCache::Part part_of(const Part& part) {
    return {.begin = part.begin,
            .end = part.end,
            .first_col = part.first_col,
            .num_cols = part.num_cols};
  }
};

using LinearForPlugin = RowsForPlugin<plugin::Linear, Linear>;
using NormForPlugin = RowsForPlugin<plugin::Norm, Norm>;
using AttentionForPlugin = RowsForPlugin<plugin::Attention, Attention>;
using MlpForPlugin = RowsForPlugin<plugin::Mlp, Mlp>;

// Wraps `op` in `adapter` and returns true when `op` has the role of Adapter.
template <class Adapter>
bool adapt_as(Operator& op,
              std::unique_ptr<Operator>& owned,
              std::unique_ptr<plugin::Operator>& adapter) {
  auto* typed = dynamic_cast<typename Adapter::Op*>(&op);
  if (typed == nullptr) return false;
  adapter = std::make_unique<Adapter>(*typed, std::move(owned));
  return true;
}

std::unique_ptr<plugin::Operator> adapt_any(Operator& op, std::unique_ptr<Operator> owned) {
  std::unique_ptr<plugin::Operator> adapter;
  for (const auto adapt_one :
       {adapt_as<LinearForPlugin>, adapt_as<NormForPlugin>, adapt_as<AttentionForPlugin>,
        adapt_as<MlpForPlugin>, adapt_as<EmbeddingForPlugin>, adapt_as<RopeForPlugin>,
        adapt_as<RouterForPlugin>, adapt_as<ExpertsForPlugin>, adapt_as<KvCacheForPlugin>}) {
    if (adapt_one(op, owned, adapter)) break;
  }
  GRAFT_CHECK(adapter != nullptr, "operator has no plugin role");
  return adapter;
}

}  // namespace

std::unique_ptr<plugin::Operator> for_plugin(Operator& op) {
  return adapt_any(op, nullptr);
}

std::unique_ptr<plugin::Operator> for_plugin(std::unique_ptr<Operator> op) {
  Operator& unowned = *op;
  return adapt_any(unowned, std::move(op));
}

}  // namespace graft::ops
