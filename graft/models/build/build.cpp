#include "graft/models/build/build.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "graft/base/error.h"
#include "graft/models/build/rope.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using ops::Role;
using plan::ModuleSpec;

DType published_dtype(const ModelConfig& config) {
  if (config.torch_dtype == "float32") return DType::F32;
  return config.torch_dtype == "float16" ? DType::F16 : DType::BF16;
}

// rope_freqs.weight, a few hundred bytes: the only data a blueprint reads.
std::vector<float> read_freq_factors(const ModelConfig& config, const Checkpoint* checkpoint) {
  const formats::TensorInfo* tensor =
      checkpoint == nullptr ? nullptr : checkpoint->find("rope_freqs.weight");
  if (tensor == nullptr || !config.rope.has_freq_factors) return {};
  const auto wanted = static_cast<std::size_t>(config.rotary_dim / 2);
  if (tensor->dtype != DType::F32 || tensor->data.size() != wanted * sizeof(float)) {
    fail(checkpoint->files().front().string(), ": rope_freqs.weight: expected ", wanted,
         " f32 values");
  }
  std::vector<float> factors(wanted);
  std::memcpy(factors.data(), tensor->data.data(), tensor->data.size());
  return factors;
}

void set_layer(ModuleSpec& module, std::int64_t layer) {
  module.layer = layer;
  for (ModuleSpec& child : module.children)
    set_layer(child, layer);
}

DType integer_dtype(const ModelConfig& config) {
  const formats::IntegerConfig& integers = config.quantization.integers;
  return formats::integer_dtype(integers.bits, integers.symmetric);
}

ops::MlpParams::Gate gate_function(const ModelConfig& config) {
  return config.hidden_act == "silu" ? ops::MlpParams::Gate::Silu : ops::MlpParams::Gate::GeluTanh;
}

float mlp_limit(const ModelConfig& config) {
  return config.moe.limits_silu ? static_cast<float>(config.moe.swiglu_limit) : 0.0F;
}

ops::RouterParams router_params(const ModelConfig& config, bool is_hashed) {
  const MoeConfig& moe = config.moe;
  return {.hidden_size = config.hidden_size,
          .num_experts = moe.num_experts,
          .top_k = moe.num_experts_per_tok,
          .scoring = moe.scoring_func,
          .method = moe.topk_method,
          .num_groups = moe.n_group,
          .top_k_groups = moe.topk_group,
          .normalize = moe.norm_topk_prob,
          .scaling_factor = static_cast<float>(moe.routed_scaling_factor),
          .bias = moe.router_bias,
          .hash_vocab_size = is_hashed ? config.vocab_size : 0};
}

ops::ExpertsParams experts_params(const ModelConfig& config) {
  return {.num_experts = config.moe.num_experts,
          .top_k = config.moe.num_experts_per_tok,
          .hidden_size = config.hidden_size,
          .intermediate_size = config.moe.moe_intermediate_size,
          .bias = config.moe.expert_bias,
          .swiglu_limit = static_cast<float>(config.moe.swiglu_limit),
          .limits_silu = config.moe.limits_silu};
}

}  // namespace

ModuleSpec make_module(std::string name, std::string class_name, Role role, ops::Params params) {
  ModuleSpec module;
  module.name = std::move(name);
  module.class_name = std::move(class_name);
  module.role = role;
  module.params = std::move(params);
  return module;
}

std::string layer_name(std::int64_t layer) {
  return str("model.layers.", layer);
}

Builder::Builder(const ModelConfig& config, const Checkpoint* checkpoint)
    : config_(config), not_integers_(config.quantization.integers) {
  if (checkpoint != nullptr && !checkpoint->tensors().empty()) index_.emplace(*checkpoint);
  rope_ = make_rope(config, read_freq_factors(config, checkpoint));
  local_rope_ = config.local_rope_theta == 0.0 ? rope_ : make_local_rope(config);
}

std::string Builder::class_name(std::string_view rest) const {
  return str(config_.family->class_prefix, rest);
}

plan::Blueprint Builder::causal_lm(const std::function<ModuleSpec(std::int64_t)>& make_layer) {
  const Family& family = *config_.family;
  ModuleSpec model = make_module("model", class_name("Model"), Role::Model);
  model.children.push_back(embedding());
  for (std::int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    model.children.push_back(make_layer(layer));
  }
  if (config_.hyper.mult > 0) model.children.push_back(hyper_connection("model.hc_head", true));
  model.children.push_back(norm("model.norm", config_.hidden_size, config_.rms_norm_eps));

  plan::Blueprint blueprint{.model_name = config_.name,
                            .family = std::string(family.model_type()),
                            .root = make_module("", std::string(family.hf_class), Role::Model),
                            .num_layers = config_.num_hidden_layers,
                            .vocab_size = config_.vocab_size,
                            .max_context = config_.max_position_embeddings};
  if (config_.rope.kind == RopeKind::LongRope)
    blueprint.long_rope_from = config_.rope.original_max_position_embeddings;
  if (config_.is_moe()) {
    blueprint.expert_share = static_cast<double>(config_.moe.num_experts_per_tok) /
                             static_cast<double>(config_.moe.num_experts);
  }
  blueprint.root.children.push_back(std::move(model));
  blueprint.root.children.push_back(lm_head());
  return blueprint;
}

ModuleSpec Builder::decoder_layer(std::int64_t layer, ModuleSpec self_attn, ModuleSpec mlp) const {
  const std::string name = layer_name(layer);
  ModuleSpec module = make_module(name, class_name("DecoderLayer"), Role::Layer);
  module.children.push_back(
      norm(name + ".input_layernorm", config_.hidden_size, config_.rms_norm_eps));
  module.children.push_back(std::move(self_attn));
  module.children.push_back(
      norm(name + ".post_attention_layernorm", config_.hidden_size, config_.rms_norm_eps));
  module.children.push_back(std::move(mlp));
  set_layer(module, layer);
  return module;
}

ModuleSpec Builder::sandwich_layer(std::int64_t layer, ModuleSpec self_attn, ModuleSpec mlp) const {
  const std::string name = layer_name(layer);
  ModuleSpec module = decoder_layer(layer, std::move(self_attn), std::move(mlp));
  std::vector<ModuleSpec>& children = module.children;
  children.insert(children.begin() + 2, norm(name + ".post_self_attn_layernorm",
                                             config_.hidden_size, config_.rms_norm_eps));
  children.push_back(norm(name + ".post_mlp_layernorm", config_.hidden_size, config_.rms_norm_eps));
  set_layer(module, layer);
  return module;
}

ModuleSpec Builder::gemma_layer(std::int64_t layer, ModuleSpec self_attn, ModuleSpec mlp) const {
  const std::string name = layer_name(layer);
  ModuleSpec module = decoder_layer(layer, std::move(self_attn), std::move(mlp));
  std::vector<ModuleSpec>& children = module.children;
  children.insert(children.begin() + 3, norm(name + ".pre_feedforward_layernorm",
                                             config_.hidden_size, config_.rms_norm_eps));
  children.push_back(
      norm(name + ".post_feedforward_layernorm", config_.hidden_size, config_.rms_norm_eps));
  set_layer(module, layer);
  return module;
}

ModuleSpec Builder::attention(std::int64_t layer) const {
  const std::string name = layer_name(layer) + ".self_attn";
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t q_size = config_.num_attention_heads * config_.head_dim;
  const std::int64_t kv_size = config_.num_key_value_heads * config_.head_dim;
  const bool has_window = config_.layer_has_window(layer);
  const bool has_rope = config_.layer_has_rope(layer);
  const bool has_l2_norm = config_.qk_l2_norm && has_rope;
  const double divisor = config_.query_pre_attn_scalar == 0.0
                             ? static_cast<double>(config_.head_dim)
                             : config_.query_pre_attn_scalar;
  ModuleSpec module = make_module(
      name, class_name("Attention"), Role::Attention,
      ops::AttentionParams{.num_heads = config_.num_attention_heads,
                           .num_key_value_heads = config_.num_key_value_heads,
                           .head_dim = config_.head_dim,
                           .sliding_window = has_window ? config_.sliding_window : 0,
                           .scale = 1.0F / std::sqrt(static_cast<float>(divisor)),
                           .qk_norm = config_.qk_norm || has_l2_norm,
                           .qk_norm_all_heads = config_.qk_norm_all_heads,
                           .chunk = has_rope ? config_.attention_chunk_size : 0,
                           .temperature_floor = has_rope ? 0 : config_.temperature_floor,
                           .temperature_scale = static_cast<float>(config_.temperature_scale),
                           .sinks = config_.attention_sinks,
                           .output_gate = config_.attention_output_gate});
  if (config_.attention_sinks)
    add_weight(module, name + ".sinks", {config_.num_attention_heads}, Published::Plain);
  std::vector<ModuleSpec>& children = module.children;
  const std::int64_t q_rows = config_.attention_output_gate ? 2 * q_size : q_size;
  children.push_back(linear(name + ".q_proj", hidden, q_rows, config_.attention_bias));
  children.push_back(linear(name + ".k_proj", hidden, kv_size, config_.attention_bias));
  children.push_back(linear(name + ".v_proj", hidden, kv_size, config_.attention_bias));
  children.push_back(linear(name + ".o_proj", q_size, hidden, config_.attention_output_bias));
  if (config_.qk_norm) {
    const bool all = config_.qk_norm_all_heads;
    const double eps = config_.rms_norm_eps;
    children.push_back(norm(name + ".q_norm", all ? q_size : config_.head_dim, eps));
    children.push_back(norm(name + ".k_norm", all ? kv_size : config_.head_dim, eps));
  }
  if (has_l2_norm) {
    children.push_back(make_module(
        name + ".qk_norm", class_name("L2Norm"), Role::Norm,
        ops::NormParams{
            .size = config_.head_dim, .eps = config_.rms_norm_eps, .has_weight = false}));
  }
  if (has_rope) {
    children.push_back(make_module(name + ".rotary_emb", class_name("RotaryEmbedding"), Role::Rope,
                                   has_window ? local_rope_ : rope_));
  }
  children.push_back(
      make_module(name + ".kv_cache", "KvCache", Role::KvCache,
                  ops::KvCacheParams{
                      .key_size = kv_size, .value_size = kv_size, .head_size = config_.head_dim}));
  return module;
}

ModuleSpec Builder::mlp(std::int64_t layer) const {
  return mlp(layer_name(layer) + ".mlp", config_.intermediate_size);
}

ModuleSpec Builder::mlp(const std::string& name, std::int64_t intermediate_size) const {
  const std::int64_t hidden = config_.hidden_size;
  ModuleSpec module = make_module(name, class_name("MLP"), Role::Mlp,
                                  ops::MlpParams{.hidden_size = hidden,
                                                 .intermediate_size = intermediate_size,
                                                 .gate = gate_function(config_),
                                                 .limit = mlp_limit(config_)});
  const bool bias = config_.mlp_bias;
  module.children.push_back(linear(name + ".gate_proj", hidden, intermediate_size, bias));
  module.children.push_back(linear(name + ".up_proj", hidden, intermediate_size, bias));
  module.children.push_back(linear(name + ".down_proj", intermediate_size, hidden, bias));
  return module;
}

ModuleSpec Builder::moe(std::int64_t layer,
                        const MoeNames& names,
                        std::vector<ModuleSpec> shared) const {
  const std::string name = str(layer_name(layer), '.', names.block);
  ops::ExpertsParams params = experts_params(config_);
  params.scales_input = config_.moe.scales_input;
  ModuleSpec module = make_module(name, names.moe_class, Role::Moe, params);
  const bool is_hashed = layer < config_.moe.num_hash_layers;
  module.children.push_back(router(str(name, '.', names.router), names.router_class, is_hashed));
  module.children.push_back(experts(name + ".experts"));
  for (ModuleSpec& child : shared)
    module.children.push_back(std::move(child));
  return module;
}

std::vector<ModuleSpec> Builder::shared_experts(std::int64_t layer) const {
  const MoeConfig& moe = config_.moe;
  if (moe.num_shared_experts == 0) return {};
  return {mlp(layer_name(layer) + ".mlp.shared_experts", moe.shared_expert_intermediate_size)};
}

ModuleSpec Builder::router(const std::string& name,
                           const std::string& router_class,
                           bool is_hashed) const {
  ModuleSpec module =
      make_module(name, router_class, Role::Router, router_params(config_, is_hashed));
  add_weight(module, name + ".weight", {config_.moe.num_experts, config_.hidden_size},
             Published::Plain);
  if (config_.moe.router_bias)
    add_weight(module, name + ".bias", {config_.moe.num_experts}, Published::Plain);
  if (is_hashed) {
    add_weight(module, name + ".tid2eid", {config_.vocab_size, config_.moe.num_experts_per_tok},
               Published::Ids);
  } else if (config_.moe.topk_method == RouterMethod::NoauxTc) {
    add_weight(module, name + ".e_score_correction_bias", {config_.moe.num_experts},
               Published::F32);
  }
  return module;
}

ModuleSpec Builder::experts(const std::string& name) const {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t inner = config_.moe.moe_intermediate_size;
  const ExpertNames& names = config_.family->experts;
  ModuleSpec module = make_module(name, "ModuleList", Role::Experts, experts_params(config_));
  for (std::int64_t expert = 0; expert < config_.moe.num_experts; ++expert) {
    const std::string one = str(name, '.', expert, '.');
    const auto add = [&](std::string_view projection, std::int64_t rows, std::int64_t cols) {
      add_weight(module, str(one, projection, ".weight"), {rows, cols}, Published::Expert);
      if (config_.moe.expert_bias)
        add_weight(module, str(one, projection, ".bias"), {rows}, Published::Plain);
    };
    add(names.gate_proj, inner, hidden);
    add(names.up_proj, inner, hidden);
    add(names.down_proj, hidden, inner);
  }
  return module;
}

ModuleSpec Builder::linear(const std::string& name,
                           std::int64_t in_features,
                           std::int64_t out_features,
                           bool bias) const {
  ModuleSpec module = make_module(
      name, "Linear", Role::Linear,
      ops::LinearParams{.in_features = in_features, .out_features = out_features, .bias = bias});
  add_weight(module, name + ".weight", {out_features, in_features}, Published::Matrix);
  if (bias) add_weight(module, name + ".bias", {out_features}, Published::Plain);
  return module;
}

ModuleSpec Builder::norm(const std::string& name, std::int64_t size, double eps) const {
  ModuleSpec module = make_module(name, class_name("RMSNorm"), Role::Norm,
                                  ops::NormParams{.size = size, .eps = eps});
  add_weight(module, name + ".weight", {size}, Published::Plain);
  return module;
}

ModuleSpec Builder::rope(const std::string& name, std::string_view rope_class) const {
  return make_module(name, std::string(rope_class), Role::Rope, rope_);
}

ModuleSpec Builder::embedding() const {
  ModuleSpec module = make_module(
      "model.embed_tokens", "Embedding", Role::Embedding,
      ops::EmbeddingParams{.vocab_size = config_.vocab_size,
                           .hidden_size = config_.hidden_size,
                           .scale = config_.scaled_embedding
                                        ? std::sqrt(static_cast<float>(config_.hidden_size))
                                        : 1.0F});
  add_weight(module, "model.embed_tokens.weight", {config_.vocab_size, config_.hidden_size},
             Published::Plain);
  return module;
}

ModuleSpec Builder::lm_head() const {
  ModuleSpec module = make_module(
      "lm_head", "Linear", Role::Linear,
      ops::LinearParams{.in_features = config_.hidden_size, .out_features = config_.vocab_size});
  // A tied head has the embedding's weight, which is listed there.
  if (!config_.tie_word_embeddings) {
    add_weight(module, "lm_head.weight", {config_.vocab_size, config_.hidden_size},
               Published::Plain);
  }
  return module;
}

void Builder::add_weight(ModuleSpec& module,
                         const std::string& name,
                         std::vector<std::int64_t> shape,
                         Published published) const {
  plan::WeightSpec weight;
  weight.name = name;
  weight.shape = std::move(shape);
  const auto found = index_ ? index_->find(name) : std::nullopt;
  const std::string& method = config_.quantization.method;
  const bool is_matrix = published == Published::Matrix || published == Published::Expert;
  if (found) {
    weight.dtype = found->dtype;
  } else if (published == Published::F32 || published == Published::Ids) {
    weight.dtype = published == Published::F32 ? DType::F32 : DType::I64;
  } else {
    const bool has_fp4 = method == "mxfp4" || config_.quantization.fp4_experts;
    weight.dtype = published == Published::Expert && has_fp4 ? DType::MXFP4
                   : is_matrix && method == "fp8"            ? DType::F8_E4M3
                   : is_matrix && has_integers(name)         ? integer_dtype(config_)
                                                             : published_dtype(config_);
  }
  module.weights.push_back(weight);
  if (weight.dtype == DType::F8_E4M3) add_scale(module, weight);
}

// Of a weight that no file shows: whether the configuration quantizes it to integers.
bool Builder::has_integers(std::string_view weight) const {
  constexpr std::string_view kSuffix = ".weight";
  return config_.quantization.integers.method != formats::IntegerMethod::None &&
         !not_integers_.contains(weight.substr(0, weight.size() - kSuffix.size()));
}

void Builder::add_scale(ModuleSpec& module, const plan::WeightSpec& weight) const {
  plan::WeightSpec scale;
  scale.name = weight.name + "_scale_inv";
  scale.dtype = DType::F32;
  const std::vector<std::int64_t>& block = config_.quantization.weight_block_size;
  if (block.size() == 2) {
    scale.shape = {(weight.shape[0] + block[0] - 1) / block[0],
                   (weight.shape[1] + block[1] - 1) / block[1]};
  }
  module.weights.push_back(std::move(scale));
}

}  // namespace graft::models
