#include "graft/models/config/hf_keys.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/str.h"

namespace graft::models {
namespace {

using formats::Fields;

// "layer_types" has one entry per layer; older files have max_window_layers instead.
std::optional<std::int64_t> first_window_layer(const Fields& fields, std::int64_t num_layers) {
  if (!fields.has("layer_types")) return std::nullopt;
  const std::vector<std::string> types = fields.texts("layer_types");
  const auto first = std::ranges::find(types, "sliding_attention");
  const bool known =
      std::all_of(types.begin(), first,
                  [](const std::string& type) { return type == "full_attention"; }) &&
      std::all_of(first, types.end(),
                  [](const std::string& type) { return type == "sliding_attention"; });
  if (!known) {
    fields.problem("layer_types", *fields.find("layer_types"),
                   "full_attention up to one layer, sliding_attention from there on");
  }
  return first == types.end() ? num_layers : first - types.begin();
}

std::int64_t read_num_experts(const Fields& fields, const HfMoeDefaults& defaults) {
  constexpr std::array<std::string_view, 3> kSpellings = {"num_experts", "num_local_experts",
                                                          "n_routed_experts"};
  for (const std::string_view key : kSpellings) {
    if (fields.is_null(key)) return 0;
    if (fields.has(key)) return fields.integer(key, 0);
  }
  return defaults.num_experts;
}

void read_routing(const Fields& fields, MoeConfig& moe) {
  const std::string scoring = fields.text("scoring_func", "");
  if (scoring == "softmax") {
    moe.scoring_func = RouterScoring::Softmax;
  } else if (scoring == "sigmoid") {
    moe.scoring_func = RouterScoring::Sigmoid;
  } else if (scoring == "sqrtsoftplus") {
    moe.scoring_func = RouterScoring::SqrtSoftplus;
  } else if (!scoring.empty()) {
    fields.problem("scoring_func", scoring, "softmax, sigmoid or sqrtsoftplus");
  }
  const std::string method = fields.text("topk_method", "");
  if (method == "greedy") {
    moe.topk_method = RouterMethod::Greedy;
  } else if (method == "group_limited_greedy") {
    moe.topk_method = RouterMethod::GroupLimitedGreedy;
  } else if (method == "noaux_tc") {
    moe.topk_method = RouterMethod::NoauxTc;
  } else if (!method.empty()) {
    fields.problem("topk_method", method, "greedy, group_limited_greedy or noaux_tc");
  }
}

}  // namespace

void read_sizes(const Fields& fields, const HfDefaults& defaults, ModelConfig& config) {
  config.vocab_size = fields.integer("vocab_size", defaults.vocab_size, 1);
  config.hidden_size = fields.integer("hidden_size", defaults.hidden_size, 1);
  config.intermediate_size = fields.integer("intermediate_size", defaults.intermediate_size);
  config.num_hidden_layers = fields.integer("num_hidden_layers", defaults.num_hidden_layers, 1);
  config.num_nextn_predict_layers = fields.integer("num_nextn_predict_layers", 0);
  config.num_attention_heads =
      fields.integer("num_attention_heads", defaults.num_attention_heads, 1);
  // An explicit null means num_attention_heads in every family; an absent key the class's default.
  const bool kv_as_heads =
      defaults.num_key_value_heads == 0 || fields.is_null("num_key_value_heads");
  config.num_key_value_heads =
      fields.integer("num_key_value_heads",
                     kv_as_heads ? config.num_attention_heads : defaults.num_key_value_heads, 1);
  config.max_position_embeddings =
      fields.integer("max_position_embeddings", defaults.max_position_embeddings, 1);
  config.rms_norm_eps = fields.number("rms_norm_eps", defaults.rms_norm_eps);
  config.hidden_act = fields.text("hidden_act", "silu");
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
}

void read_head_dim(const Fields& fields, const HfDefaults& defaults, ModelConfig& config) {
  const std::int64_t even_share = config.hidden_size / config.num_attention_heads;
  const bool has_default = defaults.head_dim > 0 && !fields.is_null("head_dim");
  config.head_dim = fields.integer("head_dim", has_default ? defaults.head_dim : even_share, 1);
  if (!fields.has("head_dim") && !has_default &&
      config.hidden_size % config.num_attention_heads != 0) {
    fields.problem(
        "num_attention_heads", config.num_attention_heads,
        str("a divisor of hidden_size ", config.hidden_size, " when head_dim is not given"));
  }
}

void read_mla(const Fields& fields, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  mla.q_lora_rank = fields.is_null("q_lora_rank") ? 0 : fields.integer("q_lora_rank", 1536);
  mla.kv_lora_rank = fields.integer("kv_lora_rank", 512, 1);
  mla.qk_nope_head_dim = fields.integer("qk_nope_head_dim", 128, 1);
  mla.qk_rope_head_dim = fields.integer("qk_rope_head_dim", 64, 1);
  mla.v_head_dim = fields.integer("v_head_dim", 128, 1);
  config.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
}

void read_attention_bias(const Fields& fields, ModelConfig& config) {
  config.attention_bias = fields.boolean("attention_bias", false);
  config.attention_output_bias = config.attention_bias;
}

void read_optional_window(const Fields& fields,
                          std::int64_t default_max_window_layers,
                          ModelConfig& config) {
  if (!fields.boolean("use_sliding_window", false)) return;
  config.sliding_window = fields.integer("sliding_window", kDefaultWindow);
  config.max_window_layers =
      first_window_layer(fields, config.num_hidden_layers)
          .value_or(fields.integer("max_window_layers", default_max_window_layers));
  if (config.sliding_window == 0 || config.max_window_layers >= config.num_hidden_layers) {
    config.sliding_window = 0;
    config.max_window_layers = 0;
  }
}

bool read_moe(const Fields& fields, const HfMoeDefaults& defaults, ModelConfig& config) {
  const std::int64_t num_experts = read_num_experts(fields, defaults);
  if (num_experts == 0) return false;
  MoeConfig& moe = config.moe;
  moe.num_experts = num_experts;
  moe.num_experts_per_tok = fields.integer("num_experts_per_tok", defaults.num_experts_per_tok);
  moe.moe_intermediate_size =
      defaults.moe_intermediate_size == 0
          ? config.intermediate_size
          : fields.integer("moe_intermediate_size", defaults.moe_intermediate_size);
  moe.first_k_dense_replace =
      fields.integer("first_k_dense_replace", defaults.first_k_dense_replace);
  moe.decoder_sparse_step = fields.integer("decoder_sparse_step", 1);
  moe.mlp_only_layers = fields.integers("mlp_only_layers");
  moe.n_group = fields.integer("n_group", defaults.n_group);
  moe.topk_group = fields.integer("topk_group", defaults.topk_group);
  moe.routed_scaling_factor =
      fields.number("routed_scaling_factor", defaults.routed_scaling_factor);
  moe.norm_topk_prob = fields.boolean("norm_topk_prob", defaults.norm_topk_prob);
  moe.scoring_func = defaults.scoring_func;
  moe.topk_method = defaults.topk_method;
  read_routing(fields, moe);
  if (const auto frequency = fields.integer("moe_layer_freq"); frequency && *frequency != 1) {
    fields.problem("moe_layer_freq", *frequency, "1");
  }
  return true;
}

void read_shared_experts(const Fields& fields, const HfMoeDefaults& defaults, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  if (!fields.is_null("n_shared_experts")) {
    moe.num_shared_experts = fields.integer("n_shared_experts", defaults.num_shared_experts);
  }
  // Fields bounds both factors by 2^40; clamped so that the product fits, validate() checks it.
  constexpr std::int64_t kMaxFactor = std::int64_t{1} << 31;
  moe.shared_expert_intermediate_size = std::min(moe.num_shared_experts, kMaxFactor) *
                                        std::min(moe.moe_intermediate_size, kMaxFactor);
}

}  // namespace graft::models
