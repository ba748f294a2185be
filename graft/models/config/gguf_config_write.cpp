#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/formats/gguf/gguf_fields.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/gguf_words.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::GgufKeyWriter;

void write_general(const ModelConfig& config, GgufKeyWriter& out) {
  const Family& family = *config.family;
  formats::GgufMetadata& metadata = out.metadata();
  metadata.set("general.architecture", std::string(family.gguf.architecture));
  metadata.set("general.type", std::string("model"));
  if (!config.name.empty()) metadata.set("general.name", config.name);
  const std::string_view written_as = family.gguf.written_as;
  out.own("model_type", std::string(written_as.empty() ? family.model_type() : written_as));
  if (config.hidden_act != family.gguf.hidden_act) out.own("hidden_act", config.hidden_act);
}

void write_sizes(const ModelConfig& config, GgufKeyWriter& out) {
  out.integer("vocab_size", config.vocab_size);
  out.integer("context_length", config.max_position_embeddings);
  out.integer("embedding_length", config.hidden_size);
  out.integer("block_count", config.num_hidden_layers + config.num_nextn_predict_layers);
  out.integer("feed_forward_length", config.intermediate_size);
  out.number("attention.layer_norm_rms_epsilon", config.rms_norm_eps);
  if (config.num_nextn_predict_layers > 0) {
    out.integer("nextn_predict_layers", config.num_nextn_predict_layers);
  }
  if (config.sliding_window > 0) out.integer("attention.sliding_window", config.sliding_window);
  if (config.max_window_layers > 0) out.own_integer("max_window_layers", config.max_window_layers);
}

// llama.cpp runs MLA as attention with one wide KV head: the latent vector and the rotated part.
void write_mla(const ModelConfig& config, GgufKeyWriter& out) {
  const MlaConfig& mla = config.mla;
  out.integer("attention.head_count_kv", 1);
  // 0 for none: llama.cpp requires the key except for a few known layer counts.
  out.integer("attention.q_lora_rank", mla.q_lora_rank);
  out.integer("attention.kv_lora_rank", mla.kv_lora_rank);
  out.integer("attention.key_length", mla.kv_lora_rank + mla.qk_rope_head_dim);
  out.integer("attention.value_length", mla.kv_lora_rank);
  out.integer("attention.key_length_mla", config.head_dim);
  out.integer("attention.value_length_mla", mla.v_head_dim);
  if (config.num_key_value_heads != config.num_attention_heads) {
    out.own_integer("num_key_value_heads", config.num_key_value_heads);
  }
}

void write_attention(const ModelConfig& config, GgufKeyWriter& out) {
  out.integer("attention.head_count", config.num_attention_heads);
  if (config.is_mla()) {
    write_mla(config, out);
  } else {
    out.integer("attention.head_count_kv", config.num_key_value_heads);
    out.integer("attention.key_length", config.head_dim);
    out.integer("attention.value_length", config.head_dim);
  }
  if (config.rope_interleaved != config.family->gguf.rope_interleaved) {
    out.own("rope_interleaved", config.rope_interleaved);
  }
}

void write_own_rope(const RopeConfig& rope, GgufKeyWriter& out) {
  for (const auto& [kind, word] : kOwnRopeKinds) {
    if (kind != rope.kind) continue;
    out.own("rope.type", std::string(word));
    out.own("rope.factor", rope.factor);
    out.own_integer("rope.original_max_position_embeddings", rope.original_max_position_embeddings);
  }
  if (rope.kind == RopeKind::Llama3) {
    out.own("rope.low_freq_factor", rope.low_freq_factor);
    out.own("rope.high_freq_factor", rope.high_freq_factor);
  }
}

void write_yarn(const ModelConfig& config, GgufKeyWriter& out) {
  const RopeConfig& rope = config.rope;
  out.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  out.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (rope.attention_factor) out.number("rope.scaling.yarn_attn_factor", *rope.attention_factor);
  const bool has_log_multiplier = config.family->gguf.mla;
  if (has_log_multiplier && rope.mscale_all_dim != 0.0) {
    out.number("rope.scaling.yarn_log_multiplier", kYarnLogFactor * rope.mscale_all_dim);
  }
  // llama.cpp has one key for mscale and mscale_all_dim, and only for models with MLA.
  if (!has_log_multiplier && rope.mscale_all_dim != 0.0) {
    out.own("rope.mscale_all_dim", rope.mscale_all_dim);
  }
  if (rope.mscale != (has_log_multiplier ? rope.mscale_all_dim : 0.0)) {
    out.own("rope.mscale", rope.mscale);
  }
}

void write_rope(const ModelConfig& config, GgufKeyWriter& out) {
  const RopeConfig& rope = config.rope;
  out.integer("rope.dimension_count", config.rotary_dim);
  out.number("rope.freq_base", rope.theta);
  write_own_rope(rope, out);
  if (rope.kind == RopeKind::LongRope) {
    out.integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
    out.number("rope.scaling.attn_factor", rope.attention_factor.value_or(1.0));
  }
  if (rope.kind != RopeKind::Linear && rope.kind != RopeKind::Yarn) return;
  const bool is_yarn = rope.kind == RopeKind::Yarn;
  out.text("rope.scaling.type", is_yarn ? "yarn" : "linear");
  out.number("rope.scaling.factor", rope.factor);
  if (rope.original_max_position_embeddings > 0) {
    out.integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
  }
  if (is_yarn) write_yarn(config, out);
}

void write_routing(const MoeConfig& moe, GgufKeyWriter& out) {
  out.integer("expert_gating_func", gating_number(moe.scoring_func));
  out.number("expert_weights_scale", moe.routed_scaling_factor);
  out.boolean("expert_weights_norm", moe.norm_topk_prob);
  for (const auto& [method, word] : kRouterMethods) {
    if (method == moe.topk_method) out.own("topk_method", std::string(word));
  }
  // llama.cpp refuses groups that restrict nothing, and has no routing that ignores groups.
  if (moe.topk_method != RouterMethod::Greedy && moe.topk_group < moe.n_group) {
    out.integer("expert_group_count", moe.n_group);
    out.integer("expert_group_used_count", moe.topk_group);
  } else if (moe.n_group != 1 || moe.topk_group != 1) {
    out.own_integer("n_group", moe.n_group);
    out.own_integer("topk_group", moe.topk_group);
  }
}

void write_shared_experts(const ModelConfig& config, GgufKeyWriter& out) {
  const MoeConfig& moe = config.moe;
  const GgufTraits::Shared shared = config.family->gguf.shared;
  const bool is_counted = shared == GgufTraits::Shared::Count;
  if (is_counted || moe.first_k_dense_replace > 0) {
    out.integer("leading_dense_block_count", moe.first_k_dense_replace);
  }
  if (is_counted) out.integer("expert_shared_count", moe.num_shared_experts);
  if (shared == GgufTraits::Shared::Width) {
    out.integer("expert_shared_feed_forward_length", moe.shared_expert_intermediate_size);
  }
}

void write_moe(const ModelConfig& config, GgufKeyWriter& out) {
  const MoeConfig& moe = config.moe;
  if (!config.is_moe()) {
    if (!config.is_mla()) return;
    // llama.cpp requires these of every deepseek2.
    out.integer("leading_dense_block_count", config.num_hidden_layers);
    out.integer("expert_feed_forward_length", config.intermediate_size);
    out.integer("expert_shared_count", 0);
    return;
  }
  out.integer("expert_count", moe.num_experts);
  out.integer("expert_used_count", moe.num_experts_per_tok);
  out.integer("expert_feed_forward_length", moe.moe_intermediate_size);
  write_shared_experts(config, out);
  if (moe.decoder_sparse_step != 1) out.own_integer("decoder_sparse_step", moe.decoder_sparse_step);
  if (!moe.mlp_only_layers.empty()) out.own_integers("mlp_only_layers", moe.mlp_only_layers);
  write_routing(moe, out);
}

void write_tokens(const ModelConfig& config, GgufKeyWriter& out) {
  formats::GgufMetadata& metadata = out.metadata();
  const auto token = [&](std::string_view name, std::optional<std::int64_t> id) {
    if (id) metadata.set(str("tokenizer.ggml.", name), static_cast<std::uint32_t>(*id));
  };
  token("bos_token_id", config.bos_token_id);
  token("padding_token_id", config.pad_token_id);
  if (!config.eos_token_ids.empty()) {
    token("eos_token_id", config.eos_token_ids.front());
    out.own_integers("eos_token_ids", config.eos_token_ids);
  }
  if (config.temperature) {
    metadata.set("general.sampling.temp", static_cast<float>(*config.temperature));
  }
  if (config.top_p) metadata.set("general.sampling.top_p", static_cast<float>(*config.top_p));
  if (config.top_k) {
    metadata.set("general.sampling.top_k", static_cast<std::int32_t>(*config.top_k));
  }
}

}  // namespace

void write_gguf_config(const ModelConfig& config, formats::GgufMetadata& metadata) {
  GgufKeyWriter out(metadata, config.family->gguf.architecture);
  write_general(config, out);
  write_sizes(config, out);
  write_attention(config, out);
  write_rope(config, out);
  write_moe(config, out);
  write_tokens(config, out);
  if (config.family->gguf.write != nullptr) config.family->gguf.write(config, out);
}

std::vector<float> rope_freqs(const ModelConfig& config) {
  const RopeConfig& rope = config.rope;
  std::vector<float> divisors;
  if (rope.kind != RopeKind::Llama3) return divisors;
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  const auto dim = static_cast<double>(config.rotary_dim);
  for (std::int64_t i = 0; i < config.rotary_dim; i += 2) {
    const double wavelength =
        2.0 * std::numbers::pi * std::pow(rope.theta, static_cast<double>(i) / dim);
    // High frequencies stay, low ones are divided by the factor, those between are interpolated.
    const double turns = original / wavelength;  // in the original context
    double divisor = rope.factor;
    if (turns >= rope.high_freq_factor) {
      divisor = 1.0;
    } else if (turns >= rope.low_freq_factor) {
      const double smooth =
          (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      divisor = 1.0 / ((1.0 - smooth) / rope.factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

std::vector<RopeTensor> rope_tensors(const ModelConfig& config) {
  if (config.rope.kind == RopeKind::LongRope) {
    return {{std::string(kLongFactors), config.rope.long_factor},
            {std::string(kShortFactors), config.rope.short_factor}};
  }
  std::vector<float> freqs = rope_freqs(config);
  if (freqs.empty()) return {};
  return {{"rope_freqs.weight", std::move(freqs)}};
}

}  // namespace graft::models
