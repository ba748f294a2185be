// GPT-OSS: grouped-query attention with biases and a sink per head, in every second layer over a
// sliding window, and routed experts with biases and a clamped SwiGLU. Checkpoints store gate and
// up of all experts alternating in one tensor, transposed in BF16 or as blocks of MXFP4.

#include <array>
#include <cstdint>

#include "graft/models/config/window_layers.h"
#include "graft/models/families/common.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;
using formats::GgufKeyWriter;

constexpr HfDefaults kGptOssDefaults = {.vocab_size = 201088,
                                        .hidden_size = 2880,
                                        .intermediate_size = 2880,
                                        .num_hidden_layers = 36,
                                        .num_attention_heads = 64,
                                        .num_key_value_heads = 8,
                                        .head_dim = 64,
                                        .max_position_embeddings = 131072,
                                        .rms_norm_eps = 1e-5,
                                        .rope_theta = 150000.0};

constexpr HfMoeDefaults kGptOssExperts = {.num_experts = 128,
                                          .num_experts_per_tok = 4,
                                          .moe_intermediate_size = 0,
                                          .norm_topk_prob = true};

constexpr std::int64_t kGptOssWindow = 128;
constexpr double kSwigluLimit = 7.0;
// Of every this many layers the last one attends to all tokens.
constexpr std::int64_t kFullPeriod = 2;

void read_gpt_oss(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kGptOssDefaults, config);
  read_head_dim(fields, kGptOssDefaults, config);
  config.attention_bias = fields.boolean("attention_bias", true);
  config.attention_output_bias = config.attention_bias;
  config.attention_sinks = true;
  if (!fields.is_null("sliding_window"))
    config.sliding_window = fields.integer("sliding_window", kGptOssWindow);
  if (config.sliding_window > 0)
    config.window_layers = read_window_layers(fields, config.num_hidden_layers, kFullPeriod);
  if (!read_moe(fields, kGptOssExperts, config))
    fields.problem("num_local_experts", 0, "an integer above 0");
  config.moe.router_bias = true;
  config.moe.expert_bias = true;
  config.moe.swiglu_limit = fields.number("swiglu_limit", kSwigluLimit);
  read_rope(fields, kGptOssDefaults, config);
  if (fields.has("rope_parameters") || fields.has("rope_scaling")) return;
  config.rope.kind = RopeKind::Yarn;
  config.rope.factor = 32.0;
  config.rope.original_max_position_embeddings = 4096;
  config.rope.truncate = false;
}

void read_gpt_oss_gguf(const GgufFields& gguf, ModelConfig& config) {
  config.attention_sinks = true;
  config.moe.router_bias = true;
  config.moe.expert_bias = true;
  config.moe.swiglu_limit = gguf.own_number("swiglu_limit", kSwigluLimit);
  config.rope.truncate = gguf.own_boolean("rope.truncate").value_or(false);
  if (gguf.tensors().empty()) config.attention_output_bias = config.attention_bias;
  read_gguf_windows(gguf, kFullPeriod, config);
}

void write_gpt_oss_gguf(const ModelConfig& config, GgufKeyWriter& out) {
  if (config.moe.swiglu_limit != kSwigluLimit) out.own("swiglu_limit", config.moe.swiglu_limit);
  if (config.rope.truncate) out.own("rope.truncate", true);
  write_gguf_windows(config, kFullPeriod, out);
}

// clang-format off
constexpr std::array kGptOssLayer = {
    TensorRow{"input_layernorm.weight",             "attn_norm.weight"},
    TensorRow{"post_attention_layernorm.weight",    "post_attention_norm.weight"},
    TensorRow{"self_attn.sinks",                    "attn_sinks.weight"},
    TensorRow{"mlp.router.weight",                  "ffn_gate_inp.weight"},
    TensorRow{"mlp.router.bias",                    "ffn_gate_inp.bias"},
    TensorRow{"mlp.experts.@.gate_proj.bias",       "ffn_gate_exps.bias",   TensorTransform::Expert},
    TensorRow{"mlp.experts.@.up_proj.bias",         "ffn_up_exps.bias",     TensorTransform::Expert},
    TensorRow{"mlp.experts.@.down_proj.bias",       "ffn_down_exps.bias",   TensorTransform::Expert},
};

// As Hugging Face folders have them: after the rows of single experts.
constexpr std::array kGptOssMerged = {
    TensorRow{"mlp.experts.gate_up_proj",           "ffn_gate_exps.weight", TensorTransform::TransposedEven},
    TensorRow{"mlp.experts.gate_up_proj",           "ffn_up_exps.weight",   TensorTransform::TransposedOdd},
    TensorRow{"mlp.experts.down_proj",              "ffn_down_exps.weight", TensorTransform::Transposed},
    TensorRow{"mlp.experts.gate_up_proj_blocks",    "ffn_gate_exps.weight", TensorTransform::Mxfp4Even},
    TensorRow{"mlp.experts.gate_up_proj_blocks",    "ffn_up_exps.weight",   TensorTransform::Mxfp4Odd},
    TensorRow{"mlp.experts.down_proj_blocks",       "ffn_down_exps.weight", TensorTransform::Mxfp4},
    TensorRow{"mlp.experts.gate_up_proj_bias",      "ffn_gate_exps.bias",   TensorTransform::EvenValues},
    TensorRow{"mlp.experts.gate_up_proj_bias",      "ffn_up_exps.bias",     TensorTransform::OddValues},
    TensorRow{"mlp.experts.down_proj_bias",         "ffn_down_exps.bias"},
};

constexpr std::array kGptOssFused = {
    FusedRow{"mlp.experts.@.gate_proj.weight",      "mlp.experts.gate_up_proj",        TensorTransform::TransposedEven},
    FusedRow{"mlp.experts.@.up_proj.weight",        "mlp.experts.gate_up_proj",        TensorTransform::TransposedOdd},
    FusedRow{"mlp.experts.@.down_proj.weight",      "mlp.experts.down_proj",           TensorTransform::Transposed},
    FusedRow{"mlp.experts.@.gate_proj.weight",      "mlp.experts.gate_up_proj_blocks", TensorTransform::Mxfp4Even},
    FusedRow{"mlp.experts.@.up_proj.weight",        "mlp.experts.gate_up_proj_blocks", TensorTransform::Mxfp4Odd},
    FusedRow{"mlp.experts.@.down_proj.weight",      "mlp.experts.down_proj_blocks",    TensorTransform::Mxfp4},
    FusedRow{"mlp.experts.@.gate_proj.bias",        "mlp.experts.gate_up_proj_bias",   TensorTransform::EvenValues},
    FusedRow{"mlp.experts.@.up_proj.bias",          "mlp.experts.gate_up_proj_bias",   TensorTransform::OddValues},
    FusedRow{"mlp.experts.@.down_proj.bias",        "mlp.experts.down_proj_bias",      TensorTransform::Expert},
};
// clang-format on

constexpr std::array kGptOssPreTokenizers = {
    formats::PreTokenizerName{"gpt-4o", "gpt-4o"},
};

plan::Blueprint build_gpt_oss(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("MLP"),
                       .router_class = build.class_name("TopKRouter"),
                       .router = "router"};
  return build_sparse(build, names, [&](std::int64_t layer) { return build.attention(layer); });
}

}  // namespace

extern const Family kGptOss = {
    .model_types = {"gpt_oss"},
    .hf_class = "GptOssForCausalLM",
    .class_prefix = "GptOss",
    .gguf = {.architecture = "gpt-oss",
             .attention_bias = true,
             .norm_topk_prob = true,
             .experts_have_mlp_width = true,
             .read = read_gpt_oss_gguf,
             .write = write_gpt_oss_gguf},
    .read_hf = read_gpt_oss,
    .tensors = {kGptOssLayer, rows::kQueryKey, rows::kAttention, rows::kExperts, kGptOssMerged},
    .fused = kGptOssFused,
    .pre_tokenizers = kGptOssPreTokenizers,
    .chat = {.builtin_template = "harmony",
             .tool_calls = formats::ToolCallFormat::Harmony,
             .reasoning = formats::kHarmonyReasoning},
    .build = build_gpt_oss,
};

}  // namespace graft::models
