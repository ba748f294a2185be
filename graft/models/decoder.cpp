#include "graft/models/decoder.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "graft/base/check.h"
#include "graft/models/build/build.h"
#include "graft/ops/modules/selected_positions.h"
#include "graft/ops/profiler.h"

namespace graft::models {
namespace {

using ops::DecoderLayer;
using ops::Hidden;
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

// self_attn, or linear_attn in layers with a recurrent state.
const std::string& attention_name(const plan::ModuleSpec& layer) {
  const auto found =
      std::ranges::find(layer.children, ops::Role::Attention, &plan::ModuleSpec::role);
  GRAFT_CHECK(found != layer.children.end(), layer.name, " has no attention");
  return found->name;
}

// Null: the layer has no such module.
template <class Op>
Op* optional_operator(OperatorTree& operators,
                      const plan::ModuleSpec& layer,
                      std::string_view name,
                      ops::Phase phase,
                      Device here) {
  const auto found = std::ranges::find_if(
      layer.children, [&](const plan::ModuleSpec& child) { return child.last_name() == name; });
  if (found == layer.children.end()) return nullptr;
  return &operator_of<Op>(operators, found->name, phase, here);
}

// The names of a layer's norms before and after its blocks. In most families
// post_attention_layernorm is the norm before the feed-forward block; in Gemma, which has one more,
// it follows the attention.
struct NormNames {
  std::string_view after_attention = "post_self_attn_layernorm";
  std::string_view before_mlp = "post_attention_layernorm";
  std::string_view after_mlp = "post_mlp_layernorm";
};

NormNames norm_names(const plan::ModuleSpec& layer) {
  constexpr NormNames kGemma = {.after_attention = "post_attention_layernorm",
                                .before_mlp = "pre_feedforward_layernorm",
                                .after_mlp = "post_feedforward_layernorm"};
  const bool is_gemma = std::ranges::any_of(layer.children, [](const plan::ModuleSpec& child) {
    return child.last_name() == "pre_feedforward_layernorm";
  });
  return is_gemma ? kGemma : NormNames{};
}

// The one place where hidden states change devices.
TensorView move_to(Device device, TensorView x, Pass& pass) {
  if (x.device == device) return x;
  const TensorView there = ops::on(device, pass).workspace.f32({x.rows(), x.cols()});
  pass.devices->copy(x, there);
  return there;
}

void finish_add(Hidden& hidden, Pass& pass) {
  if (!hidden.has_pending_add) return;
  Pass there = ops::on(hidden.x.device, pass);
  pass.devices->at(hidden.x.device).add(hidden.x, hidden.residual, there);
  hidden.has_pending_add = false;
}

void move_to(Device device, Hidden& hidden, Pass& pass) {
  const bool is_there = hidden.x.device == device;
  if (is_there && hidden.residual.data != nullptr) return;
  finish_add(hidden, pass);
  hidden.x = move_to(device, hidden.x, pass);
  hidden.residual = ops::on(device, pass).workspace.f32({hidden.x.rows(), hidden.x.cols()});
}

bool is_every_row(const std::vector<std::int32_t>& rows, TensorView x) {
  return static_cast<std::int64_t>(rows.size()) == x.rows();  // they are ascending
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
  observer.see(index, move_to(kCpu, x, pass));
}

// In parallel: the logits of many sequences are megabytes, which would take one thread as long as
// the whole pass takes the GPU.
void copy_rows(TensorView from, TensorView to, Pass& pass) {
  const auto rows = static_cast<std::size_t>(std::min(from.rows(), to.rows()));
  const std::size_t row_bytes = bytes_of(to.dtype, to.cols());
  pass.pool.parallel_for(rows, [&](std::size_t row) {
    std::memcpy(static_cast<std::byte*>(to.data) + row * row_bytes,
                static_cast<const std::byte*>(from.data) + row * row_bytes, row_bytes);
  });
}

}  // namespace

Decoder::Decoder(const plan::Plan& plan, OperatorTree& operators, ops::Phase phase) {
  const plan::ModuleSpec* embedding = plan.blueprint->find("model.embed_tokens");
  hidden_size_ = std::get<ops::EmbeddingParams>(embedding->params).hidden_size;
  vocab_size_ = plan.blueprint->vocab_size;
  for (std::int64_t i = 0; i < plan.blueprint->num_layers; ++i) {
    const std::string name = layer_name(i);
    const Device device = plan::layer_device(plan, i, phase);
    const plan::ModuleSpec& layer = *plan.blueprint->find(name);
    const NormNames norms = norm_names(layer);
    layers_.push_back(
        {.name = name,
         .device = device,
         .input_layernorm =
             &operator_of<ops::Norm>(operators, name + ".input_layernorm", phase, device),
         .self_attn = &operator_of<ops::Attention>(operators, attention_name(layer), phase, device),
         .post_self_attn_layernorm =
             optional_operator<ops::Norm>(operators, layer, norms.after_attention, phase, device),
         .post_attention_layernorm =
             &operator_of<ops::Norm>(operators, str(name, '.', norms.before_mlp), phase, device),
         .mlp = &operator_of<ops::Mlp>(operators, feed_forward_name(layer), phase, device),
         .post_mlp_layernorm =
             optional_operator<ops::Norm>(operators, layer, norms.after_mlp, phase, device),
         .attn_hc =
             optional_operator<ops::HyperConnection>(operators, layer, "attn_hc", phase, device),
         .ffn_hc =
             optional_operator<ops::HyperConnection>(operators, layer, "ffn_hc", phase, device)});
    devices_.push_back(device);
  }
  first_device_ = layers_.front().device;
  norm_device_ = operators.device_of("model.norm", phase);
  head_device_ = operators.device_of("lm_head", phase);
  embed_tokens_ =
      &operator_of<ops::Embedding>(operators, "model.embed_tokens", phase, first_device_);
  norm_ = &operator_of<ops::Norm>(operators, "model.norm", phase, norm_device_);
  hc_head_ = optional_operator<ops::HyperConnection>(operators, *plan.blueprint->find("model"),
                                                     "hc_head", phase, norm_device_);
  lm_head_ = &operator_of<ops::Linear>(operators, "lm_head", phase, head_device_);
  devices_.insert(devices_.end(), {norm_device_, head_device_, kCpu});
  std::ranges::sort(devices_);
  devices_.erase(std::unique(devices_.begin(), devices_.end()), devices_.end());
  for (const plan::Placement& placement : plan.placements) {
    auto* op = dynamic_cast<ops::Experts*>(operators.at(placement.module->name).of(phase));
    if (op != nullptr && placement.host_op != nullptr) experts_.push_back(op);
  }
  find_shared_indexers(plan, operators, phase);
  can_be_captured_ = can_be_captured(plan, operators, phase);
  is_hybrid_ = devices_.size() > 1 && has_cpu_modules(plan, operators, phase);
  is_on_one_device_ = can_be_captured_ && !is_hybrid_ && head_device_ == first_device_ &&
                      operators.device_of("model.embed_tokens", phase) == first_device_;
}

// Indexers are shared when a layer with sparse attention has none.
void Decoder::find_shared_indexers(const plan::Plan& plan,
                                   const OperatorTree& operators,
                                   ops::Phase phase) {
  for (std::int64_t i = 0; i < plan.blueprint->num_layers; ++i) {
    const plan::ModuleSpec* attention = plan.blueprint->find(layer_name(i) + ".self_attn");
    if (attention == nullptr) continue;
    const auto* mla = std::get_if<ops::MlaParams>(&attention->params);
    if (mla == nullptr || mla->index_top_k == 0) continue;
    const bool has_indexer =
        std::ranges::find(attention->children, ops::Role::Indexer, &plan::ModuleSpec::role) !=
        attention->children.end();
    if (!has_indexer) index_top_k_ = mla->index_top_k;
    selection_devices_.push_back(operators.device_of(attention->name, phase));
  }
  std::ranges::sort(selection_devices_);
  selection_devices_.erase(std::unique(selection_devices_.begin(), selection_devices_.end()),
                           selection_devices_.end());
  if (index_top_k_ == 0) selection_devices_.clear();
}

bool Decoder::has_cpu_modules(const plan::Plan& plan,
                              const OperatorTree& operators,
                              ops::Phase phase) const {
  return std::ranges::any_of(plan.placements, [&](const plan::Placement& placement) {
    const plan::ModuleSpec& module = *placement.module;
    if (module.role == ops::Role::Embedding || ops::is_vision(module.role) ||
        operators.at(module.name).of(phase) == nullptr)
      return false;
    return operators.device_of(module.name, phase) == kCpu || placement.running(phase).is_split();
  });
}

// All modules of the phase are on the device of the hidden states; experts may be on the CPU.
bool Decoder::can_be_captured(const plan::Plan& plan,
                              const OperatorTree& operators,
                              ops::Phase phase) const {
  const Device device = first_device_;
  const bool is_one_device = std::ranges::all_of(
      layers_, [&](const DecoderLayer& layer) { return layer.device == device; });
  if (device == kCpu || !is_one_device) return false;
  return std::ranges::all_of(plan.placements, [&](const plan::Placement& placement) {
    const plan::ModuleSpec& module = *placement.module;
    if (ops::is_vision(module.role) || operators.at(module.name).of(phase) == nullptr) return true;
    const Device there = operators.device_of(module.name, phase);
    if (there == device || module.role == ops::Role::Embedding) return true;
    return there == kCpu && module.role == ops::Role::Experts;
  });
}

void Decoder::forward(const PassOutput& out, const HiddenObserver& observer, Pass& pass) const {
  const DecoderScope scope(*this, pass);
  begin_pass(pass);
  const TensorView staged = allocate_staged(out, pass);
  Hidden hidden = {.x = embed(pass), .residual = {}};
  if (observer && !observer.is_last_only) show(observer, 0, hidden.x, pass);
  const TensorView x = run_layers(hidden, observer, pass);
  if (x.rows() > 0) start_output(x, out, staged, pass);
  if (x.rows() > 0 || out.is_sampled) finish_output(out, staged, x.rows(), pass);
}

void Decoder::begin_pass(Pass& pass) const {
  pass.devices->begin_pass(pass.batch);
  for (ops::Experts* experts : experts_)
    experts->before_pass(pass);
}

DecoderScope::DecoderScope(const Decoder& decoder, Pass& pass) {
  for (const Device device : decoder.devices())
    scopes_.emplace_back(ops::on(device, pass).workspace);
  for (const Device device : decoder.selection_devices())
    scopes_.emplace_back(ops::on(device, pass).workspace);
  scopes_.emplace_back(pass.devices->at(decoder.head_device()).staging());
  if (decoder.is_hybrid()) spin_.emplace(pass.pool);
}

TensorView Decoder::embed(Pass& pass) const {
  Pass first = ops::on(first_device_, pass);
  const TensorView x = first.workspace.f32({pass.batch.num_tokens(), hidden_size_});
  embed_tokens_->forward(pass.batch.token_ids, x, first);
  for (const ops::GivenRows& rows : pass.batch.given_rows) {
    const TensorView given(const_cast<float*>(rows.values), DType::F32, {rows.count, hidden_size_});
    pass.devices->copy(given, x.slice(rows.first_row, rows.count));
  }
  if (layers_.front().attn_hc == nullptr) return x;
  ops::HyperConnection& connection = *layers_.front().attn_hc;
  const TensorView streams = first.workspace.f32({x.rows(), connection.mult() * hidden_size_});
  connection.replicate(x, streams, first);
  return streams;
}

TensorView Decoder::run_layers(Hidden& hidden, const HiddenObserver& observer, Pass& pass) const {
  if (index_top_k_ > 0) {
    ops::SelectedPositions selected(selection_devices_, hidden.x.rows(), index_top_k_, pass);
    Pass sharing = pass;
    sharing.selected = &selected;
    forward_layers(hidden, observer, sharing);
  } else {
    forward_layers(hidden, observer, pass);
  }
  return final_rows(hidden.x, observer, pass);
}

void Decoder::forward_layers(Hidden& hidden, const HiddenObserver& observer, Pass& pass) const {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (reader_ != nullptr) reader_->begin_layer(i, pass.pool);
    move_to(layers_[i].device, hidden, pass);
    layers_[i].forward(hidden, pass);
    if (!observer || observer.is_last_only || i + 1 == layers_.size()) continue;
    finish_add(hidden, pass);
    show(observer, static_cast<std::int64_t>(i) + 1, hidden.x, pass);
  }
  if (reader_ != nullptr) reader_->begin_layer(layers_.size(), pass.pool);
  finish_add(hidden, pass);
}

TensorView Decoder::final_rows(TensorView x, const HiddenObserver& observer, Pass& pass) const {
  // An observer sees all rows; otherwise only the rows of the head are normed.
  if (!observer) x = gather_rows(x, pass.batch.logit_rows, pass);
  x = move_to(norm_device_, x, pass);
  Pass there = ops::on(norm_device_, pass);
  if (hc_head_ != nullptr) {
    const TensorView collapsed = there.workspace.f32({x.rows(), hidden_size_});
    if (x.rows() > 0) hc_head_->collapse(x, collapsed, {}, there);
    x = collapsed;
  }
  if (x.rows() > 0) norm_->forward(x, x, there);
  if (!observer) return x;
  show(observer, static_cast<std::int64_t>(layers_.size()), x, pass);
  return gather_rows(x, pass.batch.logit_rows, pass);
}

TensorView Decoder::allocate_staged(const PassOutput& out, Pass& pass) const {
  if (head_device_ == kCpu || out.is_sampled || out.is_kept) return {};
  const auto rows = static_cast<std::int64_t>(pass.batch.logit_rows.size());
  return pass.devices->at(head_device_).staging().f32({rows, vocab_size_});
}

void Decoder::start_output(TensorView x,
                           const PassOutput& out,
                           TensorView staged,
                           Pass& pass) const {
  x = move_to(head_device_, x, pass);
  Pass there = ops::on(head_device_, pass);
  if (pass.lora != nullptr) there.lora = pass.lora->logit_rows;
  if (head_device_ == kCpu) return lm_head_->apply(x, out.logits.slice(0, x.rows()), there);
  ops::DeviceContext& state = pass.devices->at(head_device_);
  const TensorView y = there.workspace.f32({x.rows(), vocab_size_});
  lm_head_->apply(x, y, there);
  if (out.is_kept) return state.keep_logits(y);
  if (out.is_sampled) return state.sample(y, there);
  state.start_copy_out(y, staged);
}

void Decoder::finish_output(const PassOutput& out,
                            TensorView staged,
                            std::int64_t num_tokens,
                            Pass& pass) const {
  if (head_device_ == kCpu || out.is_kept) return;
  ops::DeviceContext& state = pass.devices->at(head_device_);
  if (out.is_sampled) return state.start_tokens_out(num_tokens);
  state.finish_copies_out();
  copy_rows(staged, out.logits, pass);
}

}  // namespace graft::models
