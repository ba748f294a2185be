// DeepSeek-V4: attention over a window and compressed entries, and layers with hyper-connections.

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "graft/models/build/build.h"

namespace graft::models {
namespace {

using ops::Role;
using plan::ModuleSpec;
using Kind = CompressedConfig::Kind;

// Rotates back: the angles have the other sign.
ops::RopeParams inverse(ops::RopeParams rope) {
  for (float& frequency : rope.inv_freq)
    frequency = -frequency;
  return rope;
}

ModuleSpec cache(std::string name, const ops::KvCacheParams& params) {
  return make_module(std::move(name), "KvCache", Role::KvCache, params);
}

}  // namespace

ModuleSpec Builder::compressed_attention(std::int64_t layer) const {
  const std::string name = layer_name(layer) + ".self_attn";
  const CompressedConfig& compressed = config_.compressed;
  const Kind kind = compressed.layers.at(static_cast<std::size_t>(layer));
  const bool is_sparse = kind == Kind::Sparse;
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t head_dim = config_.head_dim;
  const std::int64_t q_rank = config_.mla.q_lora_rank;
  const std::int64_t q_size = config_.num_attention_heads * head_dim;
  const std::int64_t groups = compressed.output_groups;
  const std::int64_t group_size = groups * compressed.output_lora_rank;
  const double eps = config_.rms_norm_eps;
  ModuleSpec module = make_module(
      name, class_name("Attention"), Role::Attention,
      ops::CompressedAttentionParams{.num_heads = config_.num_attention_heads,
                                     .head_dim = head_dim,
                                     .rope_dim = config_.rotary_dim,
                                     .q_lora_rank = q_rank,
                                     .sliding_window = config_.sliding_window,
                                     .output_groups = groups,
                                     .output_lora_rank = compressed.output_lora_rank,
                                     .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
                                     .compress_rate = kind == Kind::Window ? 0
                                                      : is_sparse          ? compressed.sparse_rate
                                                                           : compressed.heavy_rate,
                                     .index_top_k = is_sparse ? config_.indexer.top_k : 0});
  add_weight(module, name + ".sinks", {config_.num_attention_heads}, Published::F32);
  std::vector<ModuleSpec>& children = module.children;
  children.push_back(linear(name + ".q_a_proj", hidden, q_rank));
  children.push_back(norm(name + ".q_a_norm", q_rank, eps));
  children.push_back(linear(name + ".q_b_proj", q_rank, q_size));
  children.push_back(
      make_module(name + ".q_b_norm", class_name("UnweightedRMSNorm"), Role::Norm,
                  ops::NormParams{.size = head_dim, .eps = eps, .has_weight = false}));
  children.push_back(linear(name + ".kv_proj", hidden, head_dim));
  children.push_back(norm(name + ".kv_norm", head_dim, eps));
  children.push_back(linear(name + ".o_a_proj", q_size / groups, group_size));
  children.back().class_name = class_name("GroupedLinear");
  std::get<ops::LinearParams>(children.back().params).groups = groups;
  children.push_back(linear(name + ".o_b_proj", group_size, hidden));
  const ops::RopeParams& rope = kind == Kind::Window ? local_rope_ : rope_;
  const std::string rope_class = class_name("RotaryEmbedding");
  children.push_back(make_module(name + ".rotary_emb", rope_class, Role::Rope, rope));
  children.push_back(
      make_module(name + ".inverse_rotary_emb", rope_class, Role::Rope, inverse(rope)));
  children.push_back(
      cache(name + ".kv_cache", {.key_size = head_dim, .max_reads = config_.sliding_window}));
  if (kind != Kind::Window) children.push_back(compressor(name + ".compressor", is_sparse));
  return module;
}

// What compressors of attention and of indexers share: projections, norm, RoPE and caches.
void Builder::add_windows(ModuleSpec& module, const ops::CompressorParams& params) const {
  const std::string& name = module.name;
  const std::int64_t width = params.row_size();
  add_weight(module, name + ".position_bias", {params.rate, width}, Published::F32);
  std::vector<ModuleSpec>& children = module.children;
  children.push_back(linear(name + ".kv_proj", params.hidden_size, width));
  children.push_back(linear(name + ".gate_proj", params.hidden_size, width));
  children.push_back(norm(name + ".kv_norm", params.head_dim, config_.rms_norm_eps));
  children.push_back(rope(name + ".rotary_emb", class_name("RotaryEmbedding")));
  children.push_back(cache(name + ".window_cache", {.key_size = width,
                                                    .value_size = width,
                                                    .head_size = params.head_dim,
                                                    .max_reads = 2 * params.rate}));
}

ModuleSpec Builder::compressor(const std::string& name, bool is_sparse) const {
  const CompressedConfig& compressed = config_.compressed;
  const ops::CompressorParams params = {
      .hidden_size = config_.hidden_size,
      .head_dim = config_.head_dim,
      .rope_dim = config_.rotary_dim,
      .rate = is_sparse ? compressed.sparse_rate : compressed.heavy_rate,
      .overlaps = is_sparse,
      .index_top_k = is_sparse ? config_.indexer.top_k : 0};
  ModuleSpec module = make_module(name, class_name(is_sparse ? "CSACompressor" : "HCACompressor"),
                                  Role::Compressor, params);
  add_windows(module, params);
  const std::int64_t max_reads =
      is_sparse ? params.index_top_k : config_.max_position_embeddings / params.rate + 1;
  module.children.push_back(
      cache(name + ".kv_cache", {.key_size = params.head_dim, .max_reads = max_reads}));
  if (is_sparse) module.children.push_back(compressed_indexer(name + ".indexer"));
  return module;
}

ModuleSpec Builder::compressed_indexer(const std::string& name) const {
  const IndexerConfig& config = config_.indexer;
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t rate = config_.compressed.sparse_rate;
  const std::int64_t rope_dim = config_.rotary_dim;
  const auto dims = static_cast<double>(config.num_heads * config.head_dim);
  ModuleSpec module =
      make_module(name, class_name("Indexer"), Role::Indexer,
                  ops::IndexerParams{.hidden_size = hidden,
                                     .q_lora_rank = config_.mla.q_lora_rank,
                                     .num_heads = config.num_heads,
                                     .head_dim = config.head_dim,
                                     .top_k = config.top_k,
                                     .scale = static_cast<float>(1.0 / std::sqrt(dims)),
                                     .compress_rate = rate,
                                     .rope_dim = rope_dim});
  add_windows(module, {.hidden_size = hidden,
                       .head_dim = config.head_dim,
                       .rope_dim = rope_dim,
                       .rate = rate,
                       .overlaps = true});
  std::vector<ModuleSpec>& children = module.children;
  children.push_back(
      linear(name + ".q_b_proj", config_.mla.q_lora_rank, config.num_heads * config.head_dim));
  // Published checkpoints do not quantize it.
  const std::string weights = name + ".scorer.weights_proj";
  children.push_back(
      make_module(weights, "Linear", Role::Linear,
                  ops::LinearParams{.in_features = hidden, .out_features = config.num_heads}));
  add_weight(children.back(), weights + ".weight", {config.num_heads, hidden}, Published::Plain);
  children.push_back(cache(
      name + ".kv_cache",
      {.key_size = config.head_dim, .max_reads = config_.max_position_embeddings / rate + 1}));
  return module;
}

ModuleSpec Builder::hyper_connection(const std::string& name, bool is_head) const {
  const HyperConfig& hyper = config_.hyper;
  const std::int64_t rows = is_head ? hyper.mult : (2 + hyper.mult) * hyper.mult;
  ModuleSpec module = make_module(name, class_name(is_head ? "HyperHead" : "HyperConnection"),
                                  Role::HyperConnection,
                                  ops::HyperConnectionParams{.hidden_size = config_.hidden_size,
                                                             .mult = hyper.mult,
                                                             .sinkhorn_iters = hyper.sinkhorn_iters,
                                                             .eps = hyper.eps,
                                                             .norm_eps = config_.rms_norm_eps,
                                                             .is_head = is_head});
  const std::string prefix = name + (is_head ? ".hc_" : ".");
  add_weight(module, prefix + "fn", {rows, hyper.mult * config_.hidden_size}, Published::F32);
  add_weight(module, prefix + "base", {rows}, Published::F32);
  add_weight(module, prefix + "scale", {is_head ? 1 : 3}, Published::F32);
  return module;
}

ModuleSpec Builder::hyper_layer(std::int64_t layer, ModuleSpec self_attn, ModuleSpec mlp) const {
  const std::string name = layer_name(layer);
  ModuleSpec module = decoder_layer(layer, std::move(self_attn), std::move(mlp));
  for (const char* connection : {".attn_hc", ".ffn_hc"}) {
    module.children.push_back(hyper_connection(name + connection, false));
    module.children.back().layer = layer;
  }
  return module;
}

}  // namespace graft::models
