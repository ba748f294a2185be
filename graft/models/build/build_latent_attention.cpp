#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "graft/models/build/build.h"
#include "graft/models/build/rope.h"

namespace graft::models {
namespace {

using plan::ModuleSpec;

// transformers gives the norms of the two latents no epsilon: they have the class's default, not
// the config's rms_norm_eps.
constexpr double kLatentNormEps = 1e-6;

// The layer norm of the index keys has an epsilon of its own.
constexpr double kIndexNormEps = 1e-6;

// DeepSeek's YaRN scales the attention scores by mscale^2, once for the query and once for the key.
float score_scale(const ModelConfig& config) {
  double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  if (config.rope.kind == RopeKind::Yarn && config.rope.mscale_all_dim != 0.0) {
    const double mscale = yarn_mscale(config.rope.factor, config.rope.mscale_all_dim);
    scale *= mscale * mscale;
  }
  return static_cast<float>(scale);
}

}  // namespace

// Queries and keys have qk_nope_head_dim + qk_rope_head_dim elements; keys and values of all heads
// are projections of one latent of kv_lora_rank, the rotary part of the key is shared by all heads.
ModuleSpec Builder::latent_attention(std::int64_t layer, std::string_view rope_class) const {
  const std::string name = layer_name(layer) + ".self_attn";
  const MlaConfig& mla = config_.mla;
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t heads = config_.num_attention_heads;
  const std::int64_t q_size = heads * config_.head_dim;
  const std::int64_t latent_row = mla.kv_lora_rank + mla.qk_rope_head_dim;
  ModuleSpec module = make_module(name, class_name("Attention"), ops::Role::Attention,
                                  ops::MlaParams{.num_heads = heads,
                                                 .q_lora_rank = mla.q_lora_rank,
                                                 .kv_lora_rank = mla.kv_lora_rank,
                                                 .qk_nope_head_dim = mla.qk_nope_head_dim,
                                                 .qk_rope_head_dim = mla.qk_rope_head_dim,
                                                 .v_head_dim = mla.v_head_dim,
                                                 .scale = score_scale(config_),
                                                 .index_top_k = config_.indexer.top_k});
  std::vector<ModuleSpec>& children = module.children;
  if (mla.q_lora_rank == 0) {
    children.push_back(linear(name + ".q_proj", hidden, q_size));
  } else {
    children.push_back(linear(name + ".q_a_proj", hidden, mla.q_lora_rank, config_.attention_bias));
    children.push_back(norm(name + ".q_a_layernorm", mla.q_lora_rank, kLatentNormEps));
    children.push_back(linear(name + ".q_b_proj", mla.q_lora_rank, q_size));
  }
  children.push_back(
      linear(name + ".kv_a_proj_with_mqa", hidden, latent_row, config_.attention_bias));
  children.push_back(norm(name + ".kv_a_layernorm", mla.kv_lora_rank, kLatentNormEps));
  children.push_back(linear(name + ".kv_b_proj", mla.kv_lora_rank,
                            heads * (mla.qk_nope_head_dim + mla.v_head_dim)));
  children.push_back(
      linear(name + ".o_proj", heads * mla.v_head_dim, hidden, config_.attention_output_bias));
  children.push_back(rope(name + ".rotary_emb", rope_class));
  children.push_back(make_module(
      name + ".kv_cache", "KvCache", ops::Role::KvCache,
      ops::KvCacheParams{
          .key_size = latent_row, .value_size = 0, .max_reads = config_.indexer.top_k}));
  if (config_.indexer.num_heads > 0 && config_.layer_has_indexer(layer))
    children.push_back(indexer(name + ".indexer", rope_class));
  return module;
}

// Its keys have a cache of their own, beside that of the latents.
ModuleSpec Builder::indexer(const std::string& name, std::string_view rope_class) const {
  const IndexerConfig& config = config_.indexer;
  const std::int64_t hidden = config_.hidden_size;
  const auto dims = static_cast<double>(config.num_heads * config.head_dim);
  ModuleSpec module =
      make_module(name, class_name("Indexer"), ops::Role::Indexer,
                  ops::IndexerParams{.hidden_size = hidden,
                                     .q_lora_rank = config_.mla.q_lora_rank,
                                     .num_heads = config.num_heads,
                                     .head_dim = config.head_dim,
                                     .top_k = config.top_k,
                                     .scale = static_cast<float>(1.0 / std::sqrt(dims)),
                                     .key_norm_eps = kIndexNormEps});
  add_weight(module, name + ".k_norm.weight", {config.head_dim}, Published::Plain);
  add_weight(module, name + ".k_norm.bias", {config.head_dim}, Published::Plain);
  std::vector<ModuleSpec>& children = module.children;
  children.push_back(
      linear(name + ".wq_b", config_.mla.q_lora_rank, config.num_heads * config.head_dim));
  children.push_back(linear(name + ".wk", hidden, config.head_dim));
  // Published checkpoints do not quantize it.
  children.push_back(
      make_module(name + ".weights_proj", "Linear", ops::Role::Linear,
                  ops::LinearParams{.in_features = hidden, .out_features = config.num_heads}));
  add_weight(children.back(), name + ".weights_proj.weight", {config.num_heads, hidden},
             Published::Plain);
  children.push_back(rope(name + ".rotary_emb", rope_class));
  std::get<ops::RopeParams>(children.back().params).interleaved = config.rope_interleaved;
  children.push_back(make_module(name + ".kv_cache", "KvCache", ops::Role::KvCache,
                                 ops::KvCacheParams{.key_size = config.head_dim}));
  return module;
}

}  // namespace graft::models
