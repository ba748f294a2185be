#include "graft/models/decoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <list>
#include <optional>

#include "graft/base/check.h"
#include "graft/models/build.h"
#include "graft/ops/profiler.h"

namespace graft::models {
namespace {

using ops::Pass;
using ops::Workspace;

template <class Op>
Op& operator_of(OperatorTree& operators, const std::string& module, ops::Phase phase, Device here) {
  auto* op = dynamic_cast<Op*>(operators.for_caller_on(here, module, phase));
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

void finish_sum(Hidden& hidden, Pass& pass) {
  if (!hidden.has_pending_add) return;
  Pass there = ops::on(hidden.x.device, pass);
  pass.devices->at(hidden.x.device).add(hidden.x, hidden.more, there);
  hidden.has_pending_add = false;
}

void move_to(Device device, Hidden& hidden, Pass& pass) {
  const bool is_there = hidden.x.device == device;
  if (is_there && hidden.more.data != nullptr) return;
  finish_sum(hidden, pass);
  hidden.x = move_to(device, hidden.x, pass);
  hidden.more = ops::on(device, pass).workspace.f32({hidden.x.rows(), hidden.x.cols()});
}

bool is_every_row(const std::vector<std::int32_t>& rows, TensorView x) {
  return static_cast<std::int64_t>(rows.size()) == x.rows();  // they ascend
}

TensorView gather_rows(TensorView x, const std::vector<std::int32_t>& rows, Pass& pass) {
  if (is_every_row(rows, x)) return x;
  Pass there = ops::on(x.device, pass);
  const TensorView picked = there.workspace.f32({static_cast<std::int64_t>(rows.size()), x.cols()});
  if (!rows.empty()) pass.devices->at(x.device).gather(x, rows, picked, there);
  return picked;
}

void show(const HiddenObserver& observer, std::int64_t index, TensorView x, Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  observer(index, move_to(kCpu, x, pass));
}

// Those of many sequences are megabytes: one thread would take as long as the GPU took for all
// else.
void copy_rows(TensorView from, TensorView to, Pass& pass) {
  const auto rows = static_cast<std::size_t>(std::min(from.rows(), to.rows()));
  const std::size_t row_bytes = bytes_of(to.dtype, to.cols());
  pass.pool.parallel_for(rows, [&](std::size_t row) {
    std::memcpy(static_cast<std::byte*>(to.data) + row * row_bytes,
                static_cast<const std::byte*>(from.data) + row * row_bytes, row_bytes);
  });
}

void copy_rows(const PassOutput& from, const PassOutput& to, Pass& pass) {
  copy_rows(from.logits, to.logits, pass);
  if (to.has_top_k()) copy_rows(from.tokens, to.tokens, pass);
}

// The same for so many rows, in memory of a workspace.
PassOutput like(const PassOutput& out, std::int64_t rows, Workspace& workspace) {
  PassOutput made = {.logits = workspace.f32({rows, out.logits.cols()})};
  if (out.has_top_k()) made.tokens = workspace.take(DType::I32, {rows, out.tokens.cols()});
  return made;
}

}  // namespace

PassOutput PassOutput::first(std::int64_t num_rows) const {
  PassOutput rows = {.logits = logits.slice(0, num_rows)};
  if (has_top_k()) rows.tokens = tokens.slice(0, num_rows);
  return rows;
}

void DecoderLayer::forward(Hidden& hidden, Pass& caller) const {
  Pass pass = ops::on(device, caller);
  const ops::ProfileScope profile(pass, name);
  const Workspace::Scope scope(pass.workspace);
  const auto& [x, y, has_pending_add] = hidden;
  const TensorView h = pass.workspace.f32({x.rows(), x.cols()});

  if (has_pending_add) {
    input_layernorm->forward_add(x, y, h, pass);
  } else {
    input_layernorm->forward(x, h, pass);
  }
  self_attn->forward(h, y, pass);

  post_attention_layernorm->forward_add(x, y, h, pass);
  mlp->forward(h, y, pass);
  hidden.has_pending_add = true;
}

Decoder::Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase) {
  const plan::ModuleSpec* embedding = plan.blueprint->find("model.embed_tokens");
  hidden_size_ = std::get<ops::EmbeddingParams>(embedding->params).hidden_size;
  vocab_size_ = plan.blueprint->vocab_size;
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
  can_be_captured_ = can_be_captured(plan, operators, phase);
  is_hybrid_ = devices_.size() > 1 && has_cpu_modules(plan, operators, phase);
}

bool Decoder::has_cpu_modules(const plan::Plan& plan,
                              const OperatorTree& operators,
                              ops::Phase phase) const {
  return std::ranges::any_of(plan.placements, [&](const plan::Placement& placement) {
    const plan::ModuleSpec& module = *placement.module;
    return module.role != ops::Role::Embedding && operators.at(module.name).of(phase) != nullptr &&
           operators.device_of(module.name, phase) == kCpu;
  });
}

// All modules of the phase on the device of the hidden states; experts may be the processor's.
bool Decoder::can_be_captured(const plan::Plan& plan,
                              const OperatorTree& operators,
                              ops::Phase phase) const {
  const Device device = first_device_;
  const bool is_one_device = std::ranges::all_of(
      layers_, [&](const DecoderLayer& layer) { return layer.device == device; });
  if (device == kCpu || !is_one_device) return false;
  return std::ranges::all_of(plan.placements, [&](const plan::Placement& placement) {
    const plan::ModuleSpec& module = *placement.module;
    if (operators.at(module.name).of(phase) == nullptr) return true;
    const Device there = operators.device_of(module.name, phase);
    if (there == device || module.role == ops::Role::Embedding) return true;
    return there == kCpu && module.role == ops::Role::Experts;
  });
}

void Decoder::forward(const PassOutput& out, const HiddenObserver& observer, Pass& pass) const {
  std::list<Workspace::Scope> scopes;
  for (const Device device : devices_)
    scopes.emplace_back(ops::on(device, pass).workspace);
  std::optional<ThreadPool::SpinScope> awake;
  if (is_hybrid_) awake.emplace(pass.pool);
  pass.devices->begin_pass(pass.batch);
  const Workspace::Scope staging(pass.devices->at(head_device_).staging());
  const PassOutput staged = room_for(out, pass);

  Hidden hidden = {.x = embed(pass), .more = {}};
  if (observer) show(observer, 0, hidden.x, pass);
  run_layers(hidden, observer, pass);
  const TensorView x = final_rows(hidden.x, observer, pass);
  if (x.rows() == 0) return;
  start_output(x, out, staged, pass);
  if (head_device_ == kCpu) return;
  pass.devices->at(head_device_).finish_copies_out();
  copy_rows(staged, out, pass);
}

void Decoder::run_captured(const PassOutput& out,
                           Pass& pass,
                           std::unique_ptr<ops::CapturedGraph>& recording) const {
  ops::DeviceState& state = pass.devices->at(first_device_);
  const Workspace::Scope scope(state.workspace());
  const Workspace::Scope here(pass.workspace);
  std::optional<ThreadPool::SpinScope> awake;
  if (is_hybrid_) awake.emplace(pass.pool);
  pass.devices->begin_pass(pass.batch);
  const Workspace::Scope staging(state.staging());
  const PassOutput staged = room_for(out, pass);
  const TensorView x = embed(pass);
  if (recording == nullptr) {
    recording = state.record([&] {
      Hidden hidden = {.x = x, .more = {}};
      run_layers(hidden, {}, pass);
      start_output(final_rows(hidden.x, {}, pass), out, staged, pass);
    });
  }
  state.replay(*recording);
  copy_rows(staged, out, pass);
}

TensorView Decoder::embed(Pass& pass) const {
  Pass first = ops::on(first_device_, pass);
  const TensorView x = first.workspace.f32({pass.batch.num_tokens(), hidden_size_});
  embed_tokens_->forward(pass.batch.token_ids, x, first);
  return x;
}

void Decoder::run_layers(Hidden& hidden, const HiddenObserver& observer, Pass& pass) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    move_to(layers_[i].device, hidden, pass);
    layers_[i].forward(hidden, pass);
    if (!observer || i + 1 == layers_.size()) continue;
    finish_sum(hidden, pass);
    show(observer, static_cast<std::int64_t>(i) + 1, hidden.x, pass);
  }
  finish_sum(hidden, pass);
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

PassOutput Decoder::room_for(const PassOutput& out, Pass& pass) const {
  if (head_device_ == kCpu) return {};
  const auto rows = static_cast<std::int64_t>(pass.batch.logit_rows.size());
  return like(out, rows, pass.devices->at(head_device_).staging());
}

void Decoder::start_output(TensorView x,
                           const PassOutput& out,
                           const PassOutput& staged,
                           Pass& pass) const {
  x = move_to(head_device_, x, pass);
  Pass there = ops::on(head_device_, pass);
  if (head_device_ == kCpu) return lm_head_->forward(x, out.logits.slice(0, x.rows()), there);
  ops::DeviceState& state = pass.devices->at(head_device_);
  const TensorView y = there.workspace.f32({x.rows(), vocab_size_});
  lm_head_->forward(x, y, there);
  if (!out.has_top_k()) return state.start_copy_out(y, staged.logits);
  const PassOutput found = like(out, x.rows(), there.workspace);
  state.find_top_k(y, found.tokens, found.logits);
  state.start_copy_out(found.tokens, staged.tokens);
  state.start_copy_out(found.logits, staged.logits);
}

}  // namespace graft::models
