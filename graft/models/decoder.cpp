#include "graft/models/decoder.h"

#include <algorithm>
#include <cstring>

#include "graft/base/check.h"
#include "graft/models/build.h"
#include "graft/ops/profiler.h"

namespace graft::models {
namespace {

using ops::Pass;
using ops::Workspace;

template <class Op>
Op& operator_of(const OperatorTree& operators, const std::string& module, ops::Phase phase) {
  auto* op = dynamic_cast<Op*>(operators.at(module).of(phase));
  GRAFT_CHECK(op != nullptr, module, " has no operator of its role");
  return *op;
}

// The feed-forward block is called mlp in most families, block_sparse_moe in Mixtral.
const std::string& feed_forward_name(const plan::ModuleSpec& layer) {
  const auto found = std::ranges::find_if(layer.children, [](const plan::ModuleSpec& child) {
    return child.role == ops::Role::Mlp || child.role == ops::Role::Moe;
  });
  GRAFT_CHECK(found != layer.children.end(), layer.name, " has no feed-forward block");
  return found->name;
}

Device device_of(const plan::Placement& placement, ops::Phase phase) {
  return phase == ops::Phase::Prefill ? placement.prefill_device : placement.generate_device;
}

// The one place where hidden states change devices.
TensorView move_to(Device device, TensorView x) {
  GRAFT_CHECK(x.device == device, "hidden states are on ", to_string(x.device), ", wanted on ",
              to_string(device));
  return x;
}

// x += y
void add_to(TensorView x, TensorView y, Pass& pass) {
  pass.pool.parallel_for(static_cast<std::size_t>(x.rows()), [&](std::size_t row) {
    float* sum = x.f32_row(static_cast<std::int64_t>(row));
    const float* more = y.f32_row(static_cast<std::int64_t>(row));
    for (std::int64_t i = 0; i < x.cols(); ++i)
      sum[i] += more[i];
  });
}

TensorView gather_rows(TensorView x, const std::vector<std::int32_t>& rows, Pass& pass) {
  TensorView picked = pass.workspace.f32({static_cast<std::int64_t>(rows.size()), x.cols()});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(picked.f32_row(static_cast<std::int64_t>(i)), x.f32_row(rows[i]),
                static_cast<std::size_t>(x.cols()) * sizeof(float));
  }
  return picked;
}

}  // namespace

void DecoderLayer::forward(TensorView x, Pass& pass) const {
  const ops::ProfileScope profile(pass, name);
  const Workspace::Scope scope(pass.workspace);
  const TensorView h = pass.workspace.f32({x.rows(), x.cols()});
  const TensorView y = pass.workspace.f32({x.rows(), x.cols()});

  input_layernorm->forward(x, h, pass);
  self_attn->forward(h, y, pass);
  add_to(x, y, pass);

  post_attention_layernorm->forward(x, h, pass);
  mlp->forward(h, y, pass);
  add_to(x, y, pass);
}

Decoder::Decoder(const plan::Plan& plan, const OperatorTree& operators, ops::Phase phase) {
  const plan::ModuleSpec* embedding = plan.blueprint->find("model.embed_tokens");
  hidden_size_ = std::get<ops::EmbeddingParams>(embedding->params).hidden_size;
  embed_tokens_ = &operator_of<ops::Embedding>(operators, "model.embed_tokens", phase);
  norm_ = &operator_of<ops::Norm>(operators, "model.norm", phase);
  lm_head_ = &operator_of<ops::Linear>(operators, "lm_head", phase);
  out_device_ = device_of(plan.at("model.norm"), phase);
  for (std::int64_t i = 0; i < plan.blueprint->num_layers; ++i) {
    const std::string name = layer_name(i);
    const plan::ModuleSpec& layer = *plan.blueprint->find(name);
    layers_.push_back(
        {.name = name,
         .device = device_of(plan.at(name + ".input_layernorm"), phase),
         .input_layernorm = &operator_of<ops::Norm>(operators, name + ".input_layernorm", phase),
         .self_attn = &operator_of<ops::Attention>(operators, name + ".self_attn", phase),
         .post_attention_layernorm =
             &operator_of<ops::Norm>(operators, name + ".post_attention_layernorm", phase),
         .mlp = &operator_of<ops::Mlp>(operators, feed_forward_name(layer), phase)});
  }
}

void Decoder::forward(TensorView logits, const HiddenObserver& observer, Pass& pass) const {
  const Workspace::Scope scope(pass.workspace);
  TensorView x = pass.workspace.f32({pass.batch.num_tokens(), hidden_size_});
  embed_tokens_->forward(pass.batch.token_ids, x, pass);
  if (observer) observer(0, x);

  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = move_to(layers_[i].device, x);
    layers_[i].forward(x, pass);
    if (observer && i + 1 < layers_.size()) observer(static_cast<std::int64_t>(i) + 1, x);
  }
  x = final_rows(move_to(out_device_, x), observer, pass);
  if (x.rows() > 0) lm_head_->forward(x, logits, pass);
}

TensorView Decoder::final_rows(TensorView x, const HiddenObserver& observer, Pass& pass) const {
  // Somebody who looks wants all rows; otherwise only what the head needs is normed.
  if (!observer) x = gather_rows(x, pass.batch.logit_rows, pass);
  if (x.rows() > 0) norm_->forward(x, x, pass);
  if (!observer) return x;
  observer(static_cast<std::int64_t>(layers_.size()), x);
  return gather_rows(x, pass.batch.logit_rows, pass);
}

}  // namespace graft::models
