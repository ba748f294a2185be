#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "graft/base/text/str.h"
#include "graft/formats/gguf/gguf_config.h"
#include "graft/formats/gguf/gguf_keys.h"

namespace graft::formats {
namespace {

class Writer {
 public:
  Writer(const ModelConfig& config, GgufMetadata& metadata)
      : config_(config), metadata_(metadata), prefix_(info(config.architecture).gguf) {}

  void write();

 private:
  void integer(std::string_view suffix, std::int64_t value) {
    metadata_.set(str(prefix_, '.', suffix), static_cast<std::uint32_t>(value));
  }
  void number(std::string_view suffix, double value) {
    metadata_.set(str(prefix_, '.', suffix), static_cast<float>(value));
  }
  void own(std::string_view name, GgufValue value) {
    metadata_.set(str("graft.", name), std::move(value));
  }
  void own_integers(std::string_view name, const std::vector<std::int64_t>& values) {
    own(name, GgufArray::of(std::vector<std::int32_t>(values.begin(), values.end())));
  }

  void write_general();
  void write_sizes();
  void write_attention();
  void write_mla();
  void write_rope();
  void write_own_rope();
  void write_moe();
  void write_routing();
  void write_tokens();

  const ModelConfig& config_;
  GgufMetadata& metadata_;
  std::string_view prefix_;
};

void Writer::write_general() {
  metadata_.set("general.architecture", std::string(prefix_));
  metadata_.set("general.type", std::string("model"));
  if (!config_.name.empty()) metadata_.set("general.name", config_.name);
  // LLaVA's text model is a Llama; its vision tower does not come along.
  const auto family =
      config_.architecture == Architecture::Llava ? Architecture::Llama : config_.architecture;
  own("model_type", std::string(info(family).model_type));
  if (config_.hidden_act != "silu") own("hidden_act", config_.hidden_act);
}

void Writer::write_sizes() {
  integer("vocab_size", config_.vocab_size);
  integer("context_length", config_.max_position_embeddings);
  integer("embedding_length", config_.hidden_size);
  integer("block_count", config_.num_hidden_layers + config_.num_nextn_predict_layers);
  integer("feed_forward_length", config_.intermediate_size);
  number("attention.layer_norm_rms_epsilon", config_.rms_norm_eps);
  if (config_.num_nextn_predict_layers > 0) {
    integer("nextn_predict_layers", config_.num_nextn_predict_layers);
  }
  if (config_.sliding_window > 0) integer("attention.sliding_window", config_.sliding_window);
  if (config_.max_window_layers > 0) {
    own("max_window_layers", static_cast<std::uint32_t>(config_.max_window_layers));
  }
}

// llama.cpp runs MLA as attention with one wide KV head: the latent vector and the rotated part.
void Writer::write_mla() {
  const MlaConfig& mla = config_.mla;
  integer("attention.head_count_kv", 1);
  // 0 where there is none: llama.cpp insists on the key for all but a few known layer counts.
  integer("attention.q_lora_rank", mla.q_lora_rank);
  integer("attention.kv_lora_rank", mla.kv_lora_rank);
  integer("attention.key_length", mla.kv_lora_rank + mla.qk_rope_head_dim);
  integer("attention.value_length", mla.kv_lora_rank);
  integer("attention.key_length_mla", config_.head_dim);
  integer("attention.value_length_mla", mla.v_head_dim);
  if (config_.num_key_value_heads != config_.num_attention_heads) {
    own("num_key_value_heads", static_cast<std::uint32_t>(config_.num_key_value_heads));
  }
  if (!config_.rope_interleaved) own("rope_interleaved", false);
}

void Writer::write_attention() {
  integer("attention.head_count", config_.num_attention_heads);
  if (config_.is_mla()) {
    write_mla();
    return;
  }
  integer("attention.head_count_kv", config_.num_key_value_heads);
  integer("attention.key_length", config_.head_dim);
  integer("attention.value_length", config_.head_dim);
}

void Writer::write_own_rope() {
  const RopeConfig& rope = config_.rope;
  for (const auto& [kind, word] : keys::kOwnRopeKinds) {
    if (kind != rope.kind) continue;
    own("rope.type", std::string(word));
    own("rope.factor", rope.factor);
    own("rope.original_max_position_embeddings",
        static_cast<std::uint32_t>(rope.original_max_position_embeddings));
  }
  if (rope.kind == RopeKind::Llama3) {
    own("rope.low_freq_factor", rope.low_freq_factor);
    own("rope.high_freq_factor", rope.high_freq_factor);
  }
}

void Writer::write_rope() {
  const RopeConfig& rope = config_.rope;
  integer("rope.dimension_count", config_.rotary_dim);
  number("rope.freq_base", rope.theta);
  write_own_rope();
  if (rope.kind != RopeKind::Linear && rope.kind != RopeKind::Yarn) return;
  const bool is_yarn = rope.kind == RopeKind::Yarn;
  metadata_.set(str(prefix_, ".rope.scaling.type"), std::string(is_yarn ? "yarn" : "linear"));
  number("rope.scaling.factor", rope.factor);
  if (rope.original_max_position_embeddings > 0) {
    integer("rope.scaling.original_context_length", rope.original_max_position_embeddings);
  }
  if (!is_yarn) return;
  number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (rope.attention_factor) number("rope.scaling.yarn_attn_factor", *rope.attention_factor);
  const bool is_deepseek = keys::is_deepseek(config_.architecture);
  if (is_deepseek && rope.mscale_all_dim != 0.0) {
    number("rope.scaling.yarn_log_multiplier", keys::kYarnLogFactor * rope.mscale_all_dim);
  }
  // llama.cpp takes both for the same number, and knows them for DeepSeek alone.
  if (!is_deepseek && rope.mscale_all_dim != 0.0) own("rope.mscale_all_dim", rope.mscale_all_dim);
  if (rope.mscale != (is_deepseek ? rope.mscale_all_dim : 0.0)) own("rope.mscale", rope.mscale);
}

void Writer::write_routing() {
  const MoeConfig& moe = config_.moe;
  const bool is_sigmoid = moe.scoring_func == ScoringFunc::Sigmoid;
  integer("expert_gating_func", is_sigmoid ? keys::kSigmoid : keys::kSoftmax);
  number("expert_weights_scale", moe.routed_scaling_factor);
  metadata_.set(str(prefix_, ".expert_weights_norm"), moe.norm_topk_prob);
  for (const auto& [method, word] : keys::kTopkMethods) {
    if (method == moe.topk_method) own("topk_method", std::string(word));
  }
  // llama.cpp refuses groups that restrict nothing, and has no routing that ignores groups.
  if (moe.topk_method != TopkMethod::Greedy && moe.topk_group < moe.n_group) {
    integer("expert_group_count", moe.n_group);
    integer("expert_group_used_count", moe.topk_group);
  } else if (moe.n_group != 1 || moe.topk_group != 1) {
    own("n_group", static_cast<std::uint32_t>(moe.n_group));
    own("topk_group", static_cast<std::uint32_t>(moe.topk_group));
  }
}

void Writer::write_moe() {
  const MoeConfig& moe = config_.moe;
  const bool counts_shared =
      config_.is_mla() || config_.architecture == Architecture::Glm4Moe;  // others give a width
  if (!config_.is_moe()) {
    if (!config_.is_mla()) return;
    // llama.cpp asks every deepseek2 for these.
    integer("leading_dense_block_count", config_.num_hidden_layers);
    integer("expert_feed_forward_length", config_.intermediate_size);
    integer("expert_shared_count", 0);
    return;
  }
  integer("expert_count", moe.num_experts);
  integer("expert_used_count", moe.num_experts_per_tok);
  integer("expert_feed_forward_length", moe.moe_intermediate_size);
  if (counts_shared) {
    integer("leading_dense_block_count", moe.first_k_dense_replace);
    integer("expert_shared_count", moe.num_shared_experts);
  } else {
    if (moe.first_k_dense_replace > 0) {
      integer("leading_dense_block_count", moe.first_k_dense_replace);
    }
    if (config_.architecture == Architecture::Qwen2Moe) {
      integer("expert_shared_feed_forward_length", moe.shared_expert_intermediate_size);
    }
  }
  if (moe.decoder_sparse_step != 1) {
    own("decoder_sparse_step", static_cast<std::uint32_t>(moe.decoder_sparse_step));
  }
  if (!moe.mlp_only_layers.empty()) own_integers("mlp_only_layers", moe.mlp_only_layers);
  write_routing();
}

void Writer::write_tokens() {
  const auto token = [this](std::string_view name, std::optional<std::int64_t> id) {
    if (id) metadata_.set(str("tokenizer.ggml.", name), static_cast<std::uint32_t>(*id));
  };
  token("bos_token_id", config_.bos_token_id);
  token("padding_token_id", config_.pad_token_id);
  if (!config_.eos_token_ids.empty()) {
    token("eos_token_id", config_.eos_token_ids.front());
    own_integers("eos_token_ids", config_.eos_token_ids);
  }
  if (config_.temperature) {
    metadata_.set("general.sampling.temp", static_cast<float>(*config_.temperature));
  }
  if (config_.top_p) metadata_.set("general.sampling.top_p", static_cast<float>(*config_.top_p));
  if (config_.top_k) {
    metadata_.set("general.sampling.top_k", static_cast<std::int32_t>(*config_.top_k));
  }
}

void Writer::write() {
  write_general();
  write_sizes();
  write_attention();
  write_rope();
  write_moe();
  write_tokens();
}

}  // namespace

void write_gguf_config(const ModelConfig& config, GgufMetadata& metadata) {
  Writer(config, metadata).write();
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
    // Short waves stay, long ones are stretched by the factor, between them it is blended in the
    // frequency.
    const double turns = original / wavelength;  // in the original context
    double divisor = rope.factor;
    if (turns > rope.high_freq_factor) {
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

}  // namespace graft::formats
