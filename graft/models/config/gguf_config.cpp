#include "graft/models/config/gguf_config.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_fields.h"
#include "graft/models/build/closest_family.h"
#include "graft/models/config/gguf_words.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::decimal_of_f32;
using formats::GgufArray;
using formats::GgufFields;
using formats::TensorInfo;

const Family& family_of(const GgufFields& gguf) {
  if (const auto model_type = gguf.own_text("model_type")) {
    const Family* own = find_family(*model_type);
    if (own != nullptr && own->gguf.architecture == gguf.architecture()) return *own;
  }
  for (const Family* family : families()) {
    const GgufTraits& traits = family->gguf;
    if (traits.architecture != gguf.architecture()) continue;
    if (traits.matches == nullptr || traits.matches(gguf)) return *family;
  }
  fail(R"("general.architecture" is ")", gguf.architecture(), R"(", supported are: )",
       supported_gguf_architectures(), "; ", closest_to_gguf(gguf));
}

std::int64_t find_vocab_size(const GgufFields& gguf) {
  if (const auto size = gguf.integer("vocab_size")) return *size;
  if (const GgufArray* tokens = gguf.metadata().array("tokenizer.ggml.tokens")) {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(tokens->count, std::numeric_limits<std::int32_t>::max()));
  }
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (tensor.name == "token_embd.weight" && !tensor.shape.empty()) return tensor.shape.front();
  }
  fail("the vocabulary size is unknown: no \"", gguf.key("vocab_size"),
       "\", no tokens, no token_embd.weight");
}

void read_sizes(const GgufFields& gguf, ModelConfig& config) {
  config.name = gguf.metadata().string("general.name").value_or("");
  config.vocab_size = find_vocab_size(gguf);
  config.hidden_size = gguf.required("embedding_length");
  config.intermediate_size = gguf.integer("feed_forward_length", 0);
  config.num_nextn_predict_layers = gguf.integer("nextn_predict_layers", 0);
  config.num_hidden_layers = gguf.required("block_count") - config.num_nextn_predict_layers;
  config.num_attention_heads = gguf.required("attention.head_count");
  config.max_position_embeddings = gguf.required("context_length");
  config.sliding_window = gguf.integer("attention.sliding_window", 0);
  config.max_window_layers = gguf.own_integer("max_window_layers", 0);
  config.rms_norm_eps = gguf.number("attention.layer_norm_rms_epsilon", 0.0);
  config.hidden_act =
      gguf.own_text("hidden_act").value_or(std::string(config.family->gguf.hidden_act));
}

// Files since 2025 store kv_b_proj in two tensors and describe attention as one wide KV head; older
// ones store it whole and describe the plain heads.
void read_mla(const GgufFields& gguf, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  const bool is_split = gguf.has("attention.key_length_mla");
  mla.q_lora_rank = gguf.integer("attention.q_lora_rank", 0);
  mla.kv_lora_rank = gguf.required("attention.kv_lora_rank");
  mla.qk_rope_head_dim = gguf.required("rope.dimension_count");
  config.head_dim = gguf.required(is_split ? "attention.key_length_mla" : "attention.key_length");
  mla.v_head_dim =
      gguf.required(is_split ? "attention.value_length_mla" : "attention.value_length");
  mla.qk_nope_head_dim = config.head_dim - mla.qk_rope_head_dim;
  config.rotary_dim = mla.qk_rope_head_dim;
  config.num_key_value_heads = gguf.own_integer("num_key_value_heads", config.num_attention_heads);
}

void read_attention(const GgufFields& gguf, ModelConfig& config) {
  const GgufTraits& traits = config.family->gguf;
  config.rope_interleaved = gguf.own_boolean("rope_interleaved").value_or(traits.rope_interleaved);
  if (traits.mla) return read_mla(gguf, config);
  const std::int64_t heads = config.num_attention_heads;
  config.num_key_value_heads = gguf.integer("attention.head_count_kv", heads);
  config.head_dim =
      gguf.integer("attention.key_length", heads > 0 ? config.hidden_size / heads : 0);
  config.rotary_dim = gguf.integer("rope.dimension_count", config.head_dim);
}

void read_yarn(const GgufFields& gguf, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.beta_fast = gguf.number("rope.scaling.yarn_beta_fast", rope.beta_fast);
  rope.beta_slow = gguf.number("rope.scaling.yarn_beta_slow", rope.beta_slow);
  if (gguf.has("rope.scaling.yarn_attn_factor")) {
    rope.attention_factor = gguf.number("rope.scaling.yarn_attn_factor", 1.0);
  }
  if (config.family->gguf.mla) {
    const double tenth = gguf.number("rope.scaling.yarn_log_multiplier", 0.0);
    // Through f32 again: the product of a decimal and 10 is not always the nearest decimal.
    rope.mscale_all_dim = decimal_of_f32(static_cast<float>(tenth / kYarnLogFactor));
    rope.mscale = rope.mscale_all_dim;
  }
  if (rope.original_max_position_embeddings == 0) {
    rope.original_max_position_embeddings = config.max_position_embeddings;
  }
}

std::vector<float> read_rope_factors(const GgufFields& gguf, const std::string& name) {
  for (const TensorInfo& tensor : gguf.tensors()) {
    if (tensor.name != name) continue;
    std::vector<float> factors(tensor.data.size() / sizeof(float));
    if (tensor.dtype != DType::F32 ||
        static_cast<std::int64_t>(factors.size()) != tensor.num_elems()) {
      fail(name, ": expected f32 values");
    }
    std::memcpy(factors.data(), tensor.data.data(), tensor.data.size());
    return factors;
  }
  fail(name, " is missing");
}

// The factors are tensors, and no key names the kind.
void read_long_rope(const GgufFields& gguf, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.kind = RopeKind::LongRope;
  rope.factor = 1.0;
  rope.short_factor = read_rope_factors(gguf, std::string(kShortFactors));
  rope.long_factor = read_rope_factors(gguf, std::string(kLongFactors));
  rope.attention_factor = gguf.number("rope.scaling.attn_factor", 1.0);
  rope.original_max_position_embeddings =
      gguf.integer("rope.scaling.original_context_length", config.max_position_embeddings);
}

void read_own_rope(const GgufFields& gguf, RopeConfig& rope) {
  const auto kind = gguf.own_text("rope.type");
  for (const auto& [known, word] : kOwnRopeKinds) {
    if (kind == word) rope.kind = known;
  }
  rope.factor = gguf.own_number("rope.factor", rope.factor);
  rope.low_freq_factor = gguf.own_number("rope.low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = gguf.own_number("rope.high_freq_factor", rope.high_freq_factor);
  rope.mscale = gguf.own_number("rope.mscale", rope.mscale);
  rope.mscale_all_dim = gguf.own_number("rope.mscale_all_dim", rope.mscale_all_dim);
  rope.original_max_position_embeddings = gguf.own_integer("rope.original_max_position_embeddings",
                                                           rope.original_max_position_embeddings);
  rope.has_freq_factors = gguf.has_tensor("rope_freqs.weight") && rope.kind != RopeKind::Llama3;
}

void read_rope(const GgufFields& gguf, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.theta = gguf.number("rope.freq_base", rope.theta);
  rope.factor = gguf.number("rope.scaling.factor", gguf.number("rope.scale_linear", 1.0));
  if (rope.factor == 0.0) rope.factor = 1.0;  // some files write 0 for "no scaling"
  const auto type = gguf.text("rope.scaling.type");
  if (gguf.has_tensor(kLongFactors)) return read_long_rope(gguf, config);
  if (type && *type != "none" && *type != "linear" && *type != "yarn") {
    fail("metadata key \"", gguf.key("rope.scaling.type"), "\" is \"", *type,
         "\", supported are: none, linear, yarn");
  }
  rope.original_max_position_embeddings = gguf.integer("rope.scaling.original_context_length", 0);
  if (type == "yarn") {
    rope.kind = RopeKind::Yarn;
    read_yarn(gguf, config);
  } else if (type == "linear" || (!type && rope.factor != 1.0)) {
    rope.kind = RopeKind::Linear;
  } else {
    rope.factor = 1.0;
    rope.original_max_position_embeddings = 0;
  }
  read_own_rope(gguf, rope);
}

void read_shared_experts(const GgufFields& gguf, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  if (config.family->gguf.shared == GgufTraits::Shared::Width) {
    moe.shared_expert_intermediate_size =
        gguf.integer("expert_shared_feed_forward_length", config.intermediate_size);
    moe.num_shared_experts = moe.shared_expert_intermediate_size > 0 ? 1 : 0;
    return;
  }
  constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
  moe.num_shared_experts =
      std::clamp<std::int64_t>(gguf.integer("expert_shared_count", 0), -1, kMaxFactor);
  moe.shared_expert_intermediate_size =
      moe.num_shared_experts * std::clamp<std::int64_t>(moe.moe_intermediate_size, -1, kMaxFactor);
}

void read_routing(const GgufFields& gguf, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  const GgufTraits& traits = config.family->gguf;
  const std::int64_t gating = gguf.integer("expert_gating_func", gating_number(traits.scoring));
  const auto* const found =
      std::ranges::find(kGatings, gating, &std::pair<RouterScoring, std::int64_t>::second);
  if (found == kGatings.end()) {
    fail("metadata key \"", gguf.key("expert_gating_func"), "\" is ", gating,
         ", supported are 1 (softmax), 2 (sigmoid) and 4 (sqrtsoftplus)");
  }
  moe.scoring_func = found->first;
  moe.n_group =
      gguf.own_integer("n_group", std::max<std::int64_t>(gguf.integer("expert_group_count", 1), 1));
  moe.topk_group = gguf.own_integer(
      "topk_group", std::max<std::int64_t>(gguf.integer("expert_group_used_count", 1), 1));
  moe.norm_topk_prob = gguf.boolean("expert_weights_norm").value_or(traits.norm_topk_prob);
  const double scale = gguf.number("expert_weights_scale", 1.0);
  moe.routed_scaling_factor = scale == 0.0 ? 1.0 : scale;
  moe.topk_method = traits.method;
  if (traits.method == RouterMethod::Greedy && moe.n_group > 1) {
    moe.topk_method = RouterMethod::GroupLimitedGreedy;
  }
  const auto method = gguf.own_text("topk_method");
  for (const auto& [known, word] : kRouterMethods) {
    if (method == word) moe.topk_method = known;
  }
}

void read_moe(const GgufFields& gguf, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.num_experts = gguf.integer("expert_count", 0);
  if (moe.num_experts == 0) return;
  moe.num_experts_per_tok = gguf.required("expert_used_count");
  // Files older than the key.
  std::int64_t width = config.intermediate_size;
  if (!config.family->gguf.experts_have_mlp_width && moe.num_experts_per_tok > 0) {
    width /= moe.num_experts_per_tok;
  }
  moe.moe_intermediate_size = gguf.integer("expert_feed_forward_length", width);
  moe.first_k_dense_replace = gguf.integer("leading_dense_block_count", 0);
  read_shared_experts(gguf, config);
  moe.decoder_sparse_step = gguf.own_integer("decoder_sparse_step", 1);
  if (const auto layers = gguf.own_integers("mlp_only_layers")) moe.mlp_only_layers = *layers;
  read_routing(gguf, config);
}

void read_tokens(const GgufFields& gguf, ModelConfig& config) {
  const formats::GgufMetadata& metadata = gguf.metadata();
  config.bos_token_id = metadata.integer("tokenizer.ggml.bos_token_id");
  config.pad_token_id = metadata.integer("tokenizer.ggml.padding_token_id");
  if (const auto ends = gguf.own_integers("eos_token_ids")) {
    config.eos_token_ids = *ends;
  } else {
    for (const std::string_view word : {"eos", "eot", "eom"}) {
      const auto id = metadata.integer(str("tokenizer.ggml.", word, "_token_id"));
      if (id && std::ranges::count(config.eos_token_ids, *id) == 0) {
        config.eos_token_ids.push_back(*id);
      }
    }
  }
  const auto sampling = [&](std::string_view name) {
    auto value = metadata.number(str("general.sampling.", name));
    if (value) value = decimal_of_f32(*value);
    return value;
  };
  config.temperature = sampling("temp");
  config.top_p = sampling("top_p");
  config.top_k = metadata.integer("general.sampling.top_k");
}

// Sets the values that GGUF has no key for, from the tensors that exist, or from the traits of the
// family when the file has no tensors.
void infer_from_tensors(const GgufFields& gguf, ModelConfig& config) {
  const GgufTraits& traits = config.family->gguf;
  const bool has_shared = config.moe.num_shared_experts > 0;
  if (gguf.tensors().empty()) {
    config.attention_bias = traits.attention_bias;
    config.qk_norm = traits.qk_norm;
    config.qk_norm_all_heads = traits.qk_norm && traits.qk_norm_all_heads;
    config.moe.shared_expert_gate = traits.shared_expert_gate && has_shared;
    return;
  }
  config.tie_word_embeddings = !gguf.has_tensor("output.weight");
  config.attention_bias = gguf.has_tensor("blk.0.attn_q.bias") ||
                          gguf.has_tensor("blk.0.attn_qkv.bias") ||
                          gguf.has_tensor("blk.0.attn_kv_a_mqa.bias");
  config.attention_output_bias = gguf.has_tensor("blk.0.attn_output.bias");
  config.mlp_bias = gguf.has_tensor("blk.0.ffn_down.bias");
  config.qk_norm = gguf.has_tensor("blk.0.attn_q_norm.weight");
  config.qk_norm_all_heads = config.qk_norm && traits.qk_norm_all_heads;
  config.moe.shared_expert_gate =
      has_shared && gguf.has_tensor_ending(".ffn_gate_inp_shexp.weight");
}

ModelConfig read(const GgufFields& gguf) {
  ModelConfig config;
  config.family = &family_of(gguf);
  read_sizes(gguf, config);
  read_attention(gguf, config);
  read_rope(gguf, config);
  read_moe(gguf, config);
  read_tokens(gguf, config);
  infer_from_tensors(gguf, config);
  if (config.family->gguf.read != nullptr) config.family->gguf.read(gguf, config);
  return config;
}

}  // namespace

ModelConfig read_gguf_config(const formats::GgufMetadata& metadata,
                             std::span<const TensorInfo> tensors,
                             const std::string& where) {
  ModelConfig config;
  try {
    config = read(GgufFields(metadata, tensors));
  } catch (const Error& error) {
    fail(where, ": ", error.what());
  }
  validate(config, where);
  return config;
}

}  // namespace graft::models
