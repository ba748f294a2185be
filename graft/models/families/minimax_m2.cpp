// MiniMax-M2: grouped-query attention with one norm over all heads of q and one over all heads of
// k, partial RoPE, and experts in every layer, routed by sigmoid scores with a correction bias.
// Hugging Face names the block and its experts as Mixtral does.

#include "graft/models/config/hf_keys.h"
#include "graft/models/families/family.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr HfDefaults kMinimaxM2Defaults = {.vocab_size = 200064,
                                           .hidden_size = 3072,
                                           .intermediate_size = 1536,
                                           .num_hidden_layers = 62,
                                           .num_attention_heads = 48,
                                           .num_key_value_heads = 8,
                                           .head_dim = 128,
                                           .max_position_embeddings = 196608,
                                           .rope_theta = 5000000.0};

constexpr HfMoeDefaults kMinimaxM2Experts = {.num_experts = 256,
                                             .num_experts_per_tok = 8,
                                             .moe_intermediate_size = 0,
                                             .norm_topk_prob = true,
                                             .scoring_func = RouterScoring::Sigmoid,
                                             .topk_method = RouterMethod::NoauxTc};

// Keys that published files have with one value, from an older architecture of MiniMax.
void check_minimax_variant(const Fields& fields) {
  const std::string type = fields.text("qk_norm_type", "per_layer");
  if (type != "per_layer") fields.problem("qk_norm_type", type, "per_layer");
  for (const std::int64_t kind : fields.integers("attn_type_list")) {
    if (kind == 1) continue;
    fields.problem("attn_type_list", kind, "1 (softmax attention) for every layer");
    break;
  }
  for (const std::string_view key : {"shared_intermediate_size", "sliding_window"}) {
    if (const std::int64_t value = fields.integer(key, 0); value != 0)
      fields.problem(key, value, "0 or null");
  }
}

void read_minimax_m2(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kMinimaxM2Defaults, config);
  read_head_dim(fields, kMinimaxM2Defaults, config);
  config.qk_norm = fields.boolean("use_qk_norm", true);
  config.qk_norm_all_heads = config.qk_norm;
  check_minimax_variant(fields);
  if (read_moe(fields, kMinimaxM2Experts, config)) {
    if (!fields.boolean("use_routing_bias", true)) config.moe.topk_method = RouterMethod::Greedy;
  }
  read_rope(fields, kMinimaxM2Defaults, config);
  if (fields.has("rotary_dim")) config.rotary_dim = fields.integer("rotary_dim", 0);
}

// clang-format off
constexpr std::array kMinimaxExperts = {
    TensorRow{"block_sparse_moe.gate.weight",             "ffn_gate_inp.weight"},
    TensorRow{"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    TensorRow{"block_sparse_moe.experts.@.w1.weight",     "ffn_gate_exps.weight", TensorTransform::Expert},
    TensorRow{"block_sparse_moe.experts.@.w3.weight",     "ffn_up_exps.weight",   TensorTransform::Expert},
    TensorRow{"block_sparse_moe.experts.@.w2.weight",     "ffn_down_exps.weight", TensorTransform::Expert},
    // As transformers names it in memory.
    TensorRow{"mlp.e_score_correction_bias",              "exp_probs_b.bias"},
};

constexpr std::array kMinimaxFused = {
    // Part of the block in checkpoints, of the router here.
    FusedRow{"block_sparse_moe.gate.e_score_correction_bias", "block_sparse_moe.e_score_correction_bias", TensorTransform::Same},
    FusedRow{"block_sparse_moe.experts.@.w1.weight", "block_sparse_moe.experts.gate_up_proj", TensorTransform::FirstHalf},
    FusedRow{"block_sparse_moe.experts.@.w3.weight", "block_sparse_moe.experts.gate_up_proj", TensorTransform::SecondHalf},
    FusedRow{"block_sparse_moe.experts.@.w2.weight", "block_sparse_moe.experts.down_proj",    TensorTransform::Expert},
};
// clang-format on

plan::Blueprint build_minimax_m2(Builder& build) {
  const MoeNames names{.block = "block_sparse_moe",
                       .moe_class = build.class_name("SparseMoeBlock"),
                       .router_class = build.class_name("TopKRouter")};
  return build.causal_lm([&](std::int64_t layer) {
    return build.decoder_layer(layer, build.attention(layer), build.moe(layer, names));
  });
}

constexpr std::array kMinimaxPreTokenizers = {
    formats::PreTokenizerName{"minimax-m2", "gpt-4o"},
};

}  // namespace

extern const Family kMinimaxM2 = {
    .model_types = {"minimax_m2"},
    .hf_class = "MiniMaxM2ForCausalLM",
    .class_prefix = "MiniMaxM2",
    .gguf = {.architecture = "minimax-m2",
             .qk_norm = true,
             .qk_norm_all_heads = true,
             .scoring = RouterScoring::Sigmoid,
             .method = RouterMethod::NoauxTc,
             .norm_topk_prob = true,
             .experts_have_mlp_width = true},
    .read_hf = read_minimax_m2,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, kMinimaxExperts,
                rows::kRouterAndFusedExperts},
    .fused = kMinimaxFused,
    .experts = {.gate_proj = "w1", .up_proj = "w3", .down_proj = "w2"},
    .renamed = {.plain = ".block_sparse_moe.", .stored = ".mlp."},
    .pre_tokenizers = kMinimaxPreTokenizers,
    .chat = {.builtin_template = "minimax-m2", .tool_calls = formats::ToolCallFormat::MiniMax},
    .build = build_minimax_m2,
};

}  // namespace graft::models
