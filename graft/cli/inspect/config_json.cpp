#include "graft/cli/inspect/config_json.h"

#include <array>
#include <utility>

namespace graft::cli {
namespace {

constexpr std::array<std::string_view, 6> kRopeNames = {"default", "linear", "dynamic",
                                                        "llama3",  "yarn",   "longrope"};

Json rope_json(const models::RopeConfig& rope) {
  Json json = {{"rope_type", name(rope.kind)}, {"rope_theta", rope.theta}};
  if (rope.has_freq_factors) json["freq_factors"] = true;
  if (rope.kind == models::RopeKind::Default) return json;
  json["factor"] = rope.factor;
  if (rope.original_max_position_embeddings > 0)
    json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  if (rope.kind == models::RopeKind::Yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["mscale"] = rope.mscale;
    json["mscale_all_dim"] = rope.mscale_all_dim;
  }
  if (rope.kind == models::RopeKind::LongRope) {
    json["attention_factor"] = rope.attention_factor.value_or(1.0);
    json["short_factor"] = rope.short_factor;
    json["long_factor"] = rope.long_factor;
  }
  if (rope.kind == models::RopeKind::Llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  return json;
}

std::string_view scoring_name(models::RouterScoring scoring) {
  static constexpr std::array<std::string_view, 3> kNames = {"softmax", "sigmoid", "sqrtsoftplus"};
  return kNames[static_cast<std::size_t>(scoring)];
}

Json compressed_json(const models::CompressedConfig& compressed) {
  static constexpr std::array<std::string_view, 3> kKinds = {
      "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"};
  Json layers = Json::array();
  for (const models::CompressedConfig::Kind kind : compressed.layers)
    layers.push_back(kKinds[static_cast<std::size_t>(kind)]);
  return {{"layers", std::move(layers)},
          {"sparse_rate", compressed.sparse_rate},
          {"heavy_rate", compressed.heavy_rate},
          {"output_groups", compressed.output_groups},
          {"output_lora_rank", compressed.output_lora_rank}};
}

Json hyper_json(const models::HyperConfig& hyper) {
  return {{"mult", hyper.mult}, {"sinkhorn_iters", hyper.sinkhorn_iters}, {"eps", hyper.eps}};
}

Json moe_json(const models::MoeConfig& moe) {
  static constexpr std::array<std::string_view, 3> kMethods = {"greedy", "group_limited_greedy",
                                                               "noaux_tc"};
  return {{"num_experts", moe.num_experts},
          {"num_experts_per_tok", moe.num_experts_per_tok},
          {"moe_intermediate_size", moe.moe_intermediate_size},
          {"num_shared_experts", moe.num_shared_experts},
          {"shared_expert_intermediate_size", moe.shared_expert_intermediate_size},
          {"shared_expert_gate", moe.shared_expert_gate},
          {"first_k_dense_replace", moe.first_k_dense_replace},
          {"scoring_func", scoring_name(moe.scoring_func)},
          {"topk_method", kMethods[static_cast<std::size_t>(moe.topk_method)]},
          {"n_group", moe.n_group},
          {"topk_group", moe.topk_group},
          {"norm_topk_prob", moe.norm_topk_prob},
          {"routed_scaling_factor", moe.routed_scaling_factor},
          {"scales_input", moe.scales_input},
          {"num_hash_layers", moe.num_hash_layers},
          {"swiglu_limit", moe.swiglu_limit},
          {"limits_silu", moe.limits_silu}};
}

Json mla_json(const models::MlaConfig& mla) {
  return {{"q_lora_rank", mla.q_lora_rank},
          {"kv_lora_rank", mla.kv_lora_rank},
          {"qk_nope_head_dim", mla.qk_nope_head_dim},
          {"qk_rope_head_dim", mla.qk_rope_head_dim},
          {"v_head_dim", mla.v_head_dim}};
}

Json delta_net_json(const models::DeltaNetConfig& net) {
  return {{"num_key_heads", net.num_key_heads},     {"num_value_heads", net.num_value_heads},
          {"key_head_dim", net.key_head_dim},       {"value_head_dim", net.value_head_dim},
          {"conv_kernel_dim", net.conv_kernel_dim}, {"layers", net.layers}};
}

Json indexer_json(const models::IndexerConfig& indexer) {
  Json json = {{"num_heads", indexer.num_heads},
               {"head_dim", indexer.head_dim},
               {"top_k", indexer.top_k},
               {"rope_interleaved", indexer.rope_interleaved}};
  if (!indexer.layers.empty()) json["layers"] = indexer.layers;
  return json;
}

Json vision_json(const models::VisionConfig& vision) {
  return {{"hidden_size", vision.hidden_size},
          {"intermediate_size", vision.intermediate_size},
          {"num_hidden_layers", vision.num_hidden_layers},
          {"num_attention_heads", vision.num_attention_heads},
          {"image_size", vision.image_size},
          {"patch_size", vision.patch_size}};
}

}  // namespace

std::string_view name(models::RopeKind kind) {
  return kRopeNames[static_cast<std::size_t>(kind)];
}

Json to_json(const models::ModelConfig& config) {
  Json json = {{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_nextn_predict_layers", config.num_nextn_predict_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"num_key_value_heads", config.num_key_value_heads},
               {"head_dim", config.head_dim},
               {"rotary_dim", config.rotary_dim},
               {"max_position_embeddings", config.max_position_embeddings},
               {"sliding_window", config.sliding_window},
               {"rms_norm_eps", config.rms_norm_eps},
               {"hidden_act", config.hidden_act},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"attention_bias", config.attention_bias},
               {"qk_norm", config.qk_norm},
               {"qk_norm_all_heads", config.qk_norm_all_heads},
               {"qk_l2_norm", config.qk_l2_norm},
               {"scaled_embedding", config.scaled_embedding},
               {"rope", rope_json(config.rope)},
               {"eos_token_ids", config.eos_token_ids}};
  if (!config.window_layers.empty()) json["window_layers"] = config.window_layers;
  if (config.local_rope_theta != 0.0) json["local_rope_theta"] = config.local_rope_theta;
  if (config.query_pre_attn_scalar != 0.0)
    json["query_pre_attn_scalar"] = config.query_pre_attn_scalar;
  if (config.attention_output_gate) json["attention_output_gate"] = true;
  if (config.is_mla()) json["mla"] = mla_json(config.mla);
  if (!config.delta_net.layers.empty()) json["delta_net"] = delta_net_json(config.delta_net);
  if (config.indexer.num_heads > 0) json["indexer"] = indexer_json(config.indexer);
  if (config.attention_chunk_size > 0) json["attention_chunk_size"] = config.attention_chunk_size;
  if (!config.rope_layers.empty()) json["rope_layers"] = config.rope_layers;
  if (config.temperature_floor > 0) {
    json["temperature_floor"] = config.temperature_floor;
    json["temperature_scale"] = config.temperature_scale;
  }
  if (config.is_compressed()) {
    json["q_lora_rank"] = config.mla.q_lora_rank;
    json["compressed"] = compressed_json(config.compressed);
  }
  if (config.hyper.mult > 0) json["hyper"] = hyper_json(config.hyper);
  if (config.is_moe()) json["moe"] = moe_json(config.moe);
  if (config.vision) json["vision"] = vision_json(*config.vision);
  if (!config.quantization.method.empty()) json["quantization"] = config.quantization.method;
  return json;
}

}  // namespace graft::cli
