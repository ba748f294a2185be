#include "graft/models/decoder.h"

#include <algorithm>
#include <iterator>
#include <list>

#include "graft/base/check.h"
#include "graft/models/build.h"
#include "graft/ops/device_state.h"
#include "graft/ops/profiler.h"

namespace graft::models {
namespace {

using ops::Pass;
using ops::Workspace;

template <class Op>
Op& operator_of(OperatorTree& operators, const std::string& module, ops::Phase phase, Device here) {
  auto* op = dynamic_cast<Op*>(operators.seen_from(here, module, phase));
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

// Where the hidden states are in a layer: where the rules move them, else beside its first norm.
Device layer_device(const plan::Plan& plan,
                    const OperatorTree& operators,
                    std::int64_t layer,
                    ops::Phase phase) {
  const auto next = plan.transfer_map.upper_bound(layer);
  if (next != plan.transfer_map.begin()) return std::prev(next)->second;
  return operators.device_of(layer_name(layer) + ".input_layernorm", phase);
}

// The one place where hidden states change devices.
TensorView move_to(Device device, TensorView x, Pass& pass) {
  if (x.device == device) return x;
  const TensorView there = ops::on(device, pass).workspace.f32({x.rows(), x.cols()});
  pass.devices->copy(x, there);
  return there;
}

TensorView gather_rows(TensorView x, const std::vector<std::int32_t>& rows, Pass& pass) {
  Pass there = ops::on(x.device, pass);
  const TensorView picked = there.workspace.f32({static_cast<std::int64_t>(rows.size()), x.cols()});
  if (!rows.empty()) pass.devices->at(x.device).gather(x, rows, picked, there);
  return picked;
}

void show(const HiddenObserver& observer, std::int64_t index, TensorView x, Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  observer(index, move_to(kCpu, x, pass));
}

}  // namespace

void DecoderLayer::forward(TensorView x, Pass& caller) const {
  Pass pass = ops::on(device, caller);
  ops::DeviceState& state = pass.devices->at(device);
  const ops::ProfileScope profile(pass, name);
  const Workspace::Scope scope(pass.workspace);
  const TensorView h = pass.workspace.f32({x.rows(), x.cols()});
  const TensorView y = pass.workspace.f32({x.rows(), x.cols()});

  input_layernorm->forward(x, h, pass);
  self_attn->forward(h, y, pass);
  state.add(x, y, pass);

  post_attention_layernorm->forward(x, h, pass);
  mlp->forward(h, y, pass);
  state.add(x, y, pass);
}

Decoder::Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase) {
  const plan::ModuleSpec* embedding = plan.blueprint->find("model.embed_tokens");
  hidden_size_ = std::get<ops::EmbeddingParams>(embedding->params).hidden_size;
  for (std::int64_t i = 0; i < plan.blueprint->num_layers; ++i) {
    const std::string name = layer_name(i);
    const Device device = layer_device(plan, operators, i, phase);
    const plan::ModuleSpec& layer = *plan.blueprint->find(name);
    layers_.push_back(
        {.name = name,
         .device = device,
         .input_layernorm =
             &operator_of<ops::Norm>(operators, name + ".input_layernorm", phase, device),
         .self_attn = &operator_of<ops::Attention>(operators, name + ".self_attn", phase, device),
         .post_attention_layernorm =
             &operator_of<ops::Norm>(operators, name + ".post_attention_layernorm", phase, device),
         .mlp = &operator_of<ops::Mlp>(operators, feed_forward_name(layer), phase, device)});
    devices_.push_back(device);
  }
  first_device_ = layers_.front().device;
  norm_device_ = operators.device_of("model.norm", phase);
  head_device_ = operators.device_of("lm_head", phase);
  embed_tokens_ =
      &operator_of<ops::Embedding>(operators, "model.embed_tokens", phase, first_device_);
  norm_ = &operator_of<ops::Norm>(operators, "model.norm", phase, norm_device_);
  lm_head_ = &operator_of<ops::Linear>(operators, "lm_head", phase, head_device_);
  devices_.insert(devices_.end(), {norm_device_, head_device_, kCpu});
  std::ranges::sort(devices_);
  devices_.erase(std::unique(devices_.begin(), devices_.end()), devices_.end());
}

void Decoder::forward(TensorView logits, const HiddenObserver& observer, Pass& pass) const {
  std::list<Workspace::Scope> scopes;
  for (const Device device : devices_)
    scopes.emplace_back(ops::on(device, pass).workspace);
  pass.devices->begin_pass(pass.batch);

  Pass first = ops::on(first_device_, pass);
  TensorView x = first.workspace.f32({pass.batch.num_tokens(), hidden_size_});
  embed_tokens_->forward(pass.batch.token_ids, x, first);
  if (observer) show(observer, 0, x, pass);

  for (std::size_t i = 0; i < layers_.size(); ++i) {
    x = move_to(layers_[i].device, x, pass);
    layers_[i].forward(x, pass);
    if (observer && i + 1 < layers_.size())
      show(observer, static_cast<std::int64_t>(i) + 1, x, pass);
  }
  x = final_rows(x, observer, pass);
  if (x.rows() > 0) write_logits(x, logits, pass);
}

TensorView Decoder::final_rows(TensorView x, const HiddenObserver& observer, Pass& pass) const {
  // Somebody who looks wants all rows; otherwise only what the head needs is normed.
  if (!observer) x = gather_rows(x, pass.batch.logit_rows, pass);
  x = move_to(norm_device_, x, pass);
  Pass there = ops::on(norm_device_, pass);
  if (x.rows() > 0) norm_->forward(x, x, there);
  if (!observer) return x;
  show(observer, static_cast<std::int64_t>(layers_.size()), x, pass);
  return gather_rows(x, pass.batch.logit_rows, pass);
}

void Decoder::write_logits(TensorView x, TensorView logits, Pass& pass) const {
  x = move_to(head_device_, x, pass);
  Pass there = ops::on(head_device_, pass);
  const bool is_here = head_device_ == kCpu;
  const TensorView y = is_here ? logits : there.workspace.f32({x.rows(), logits.cols()});
  lm_head_->forward(x, y, there);
  if (!is_here) pass.devices->copy(y, logits.slice(0, y.rows()));
}

}  // namespace graft::models
