// Qwen3-Next and Qwen3.5-MoE: three of four layers have the gated delta rule, the others attention
// with norms of q and k, partial RoPE and an output gate. All have routed experts and a gated
// shared one, and norms whose factor is 1 + weight. Qwen3-Next fuses the projections of a
// delta-rule layer by key head; Qwen3.5-MoE stores them apart. The multimodal model (qwen3_5_moe)
// is built without its vision tower.

#include "graft/models/config/linear_layers.h"
#include "graft/models/families/qwen/qwen.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr HfDefaults kQwen3NextDefaults = {.vocab_size = 151936,
                                           .hidden_size = 2048,
                                           .intermediate_size = 5632,
                                           .num_hidden_layers = 48,
                                           .num_attention_heads = 16,
                                           .num_key_value_heads = 2,
                                           .head_dim = 256,
                                           .max_position_embeddings = 32768,
                                           .partial_rotary_factor = 0.25};

constexpr HfMoeDefaults kQwen3NextExperts = {.num_experts = 512,
                                             .num_experts_per_tok = 10,
                                             .moe_intermediate_size = 512,
                                             .norm_topk_prob = true};

constexpr HfDefaults kQwen35MoeDefaults = {.vocab_size = 248320,
                                           .hidden_size = 2048,
                                           .intermediate_size = 0,
                                           .num_hidden_layers = 40,
                                           .num_attention_heads = 16,
                                           .num_key_value_heads = 2,
                                           .head_dim = 256,
                                           .max_position_embeddings = 32768,
                                           .partial_rotary_factor = 0.25};

constexpr HfMoeDefaults kQwen35MoeExperts = {.num_experts = 256,
                                             .num_experts_per_tok = 8,
                                             .moe_intermediate_size = 512,
                                             .norm_topk_prob = true};

void read_hybrid(const Fields& fields,
                 const HfDefaults& defaults,
                 const HfMoeDefaults& experts,
                 ModelConfig& config) {
  read_sizes(fields, defaults, config);
  read_head_dim(fields, defaults, config);
  read_attention_bias(fields, config);
  config.qk_norm = true;
  config.attention_output_gate = true;
  read_delta_net(fields, config);
  if (read_moe(fields, experts, config)) {
    MoeConfig& moe = config.moe;
    moe.shared_expert_intermediate_size = fields.integer("shared_expert_intermediate_size", 512);
    moe.num_shared_experts = moe.shared_expert_intermediate_size > 0 ? 1 : 0;
    moe.shared_expert_gate = moe.num_shared_experts > 0;
  }
  read_rope(fields, defaults, config);
}

void read_qwen3_next(const Fields& fields, ModelConfig& config) {
  read_hybrid(fields, kQwen3NextDefaults, kQwen3NextExperts, config);
}

void read_qwen35_moe_text(const Fields& fields, ModelConfig& config) {
  read_hybrid(fields, kQwen35MoeDefaults, kQwen35MoeExperts, config);
}

void read_qwen35_moe(const Fields& top, ModelConfig& config) {
  read_qwen35_moe_text(top.has("text_config") ? top.object("text_config") : top, config);
  if (const auto tied = top.boolean("tie_word_embeddings")) config.tie_word_embeddings = *tied;
}

// What is inferred from the first layer in other families: here it has no attention.
void read_hybrid_gguf(const formats::GgufFields& gguf, ModelConfig& config) {
  read_gguf_delta_net(gguf, config);
  config.qk_norm = true;
  config.attention_output_gate = true;
  config.attention_bias = gguf.has_tensor_ending(".attn_q.bias");
  config.attention_output_bias = gguf.has_tensor_ending(".attn_output.bias");
}

void read_qwen35_gguf(const formats::GgufFields& gguf, ModelConfig& config) {
  read_hybrid_gguf(gguf, config);
  config.delta_net.tiled_value_heads = true;
}

// llama.cpp requires the sections of its multimodal RoPE, which take turns: pair i belongs to
// section i % 3. Text has equal positions in all of them, but a pair beyond its section has none.
void write_qwen35_gguf(const ModelConfig& config, formats::GgufKeyWriter& out) {
  write_gguf_delta_net(config, out);
  const auto pairs = static_cast<std::int32_t>(config.rotary_dim / 2);
  out.metadata().set("qwen35moe.rope.dimension_sections",
                     formats::GgufArray::of(std::vector<std::int32_t>{
                         (pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0}));  // 11, 11, 10 of 32
}

// clang-format off
constexpr std::array kHybridNorms = {
    TensorRow{"input_layernorm.weight",               "attn_norm.weight"},
    TensorRow{"post_attention_layernorm.weight",      "post_attention_norm.weight"},
};

constexpr std::array kHybridSharedExpert = {
    TensorRow{"mlp.shared_expert.gate_proj.weight",   "ffn_gate_shexp.weight"},
    TensorRow{"mlp.shared_expert.up_proj.weight",     "ffn_up_shexp.weight"},
    TensorRow{"mlp.shared_expert.down_proj.weight",   "ffn_down_shexp.weight"},
    TensorRow{"mlp.shared_expert_gate.weight",        "ffn_gate_inp_shexp.weight"},
};

constexpr std::array kFusedDeltaNet = {
    TensorRow{"linear_attn.in_proj_qkvz.weight",      "attn_qkv.weight",   TensorTransform::QkvzQkv},
    TensorRow{"linear_attn.in_proj_qkvz.weight",      "attn_gate.weight",  TensorTransform::QkvzZ},
    TensorRow{"linear_attn.in_proj_qkvz.weight",      "ssm_in.weight",     TensorTransform::Same, true},
    TensorRow{"linear_attn.in_proj_qkv.weight",       "attn_qkv.weight",   TensorTransform::Same, true},
    TensorRow{"linear_attn.in_proj_z.weight",         "attn_gate.weight",  TensorTransform::Same, true},
    TensorRow{"linear_attn.in_proj_ba.weight",        "ssm_ba.weight"},
    TensorRow{"linear_attn.conv1d.weight",            "ssm_conv1d.weight"},
    TensorRow{"linear_attn.A_log",                    "ssm_a",             TensorTransform::NegExp},
    TensorRow{"linear_attn.dt_bias",                  "ssm_dt.bias"},
    TensorRow{"linear_attn.norm.weight",              "ssm_norm.weight"},
    TensorRow{"linear_attn.out_proj.weight",          "ssm_out.weight"},
};

constexpr std::array kSplitDeltaNet = {
    TensorRow{"linear_attn.in_proj_qkv.weight",       "attn_qkv.weight",   TensorTransform::TiledQkv},
    TensorRow{"linear_attn.in_proj_z.weight",         "attn_gate.weight",  TensorTransform::TiledValues},
    TensorRow{"linear_attn.in_proj_b.weight",         "ssm_beta.weight",   TensorTransform::TiledHeads},
    TensorRow{"linear_attn.in_proj_a.weight",         "ssm_alpha.weight",  TensorTransform::TiledHeads},
    TensorRow{"linear_attn.conv1d.weight",            "ssm_conv1d.weight", TensorTransform::TiledQkv},
    TensorRow{"linear_attn.A_log",                    "ssm_a",             TensorTransform::TiledNegExp},
    TensorRow{"linear_attn.dt_bias",                  "ssm_dt.bias",       TensorTransform::TiledHeads},
    TensorRow{"linear_attn.norm.weight",              "ssm_norm.weight"},
    TensorRow{"linear_attn.out_proj.weight",          "ssm_out.weight",    TensorTransform::TiledColumns},
};

constexpr std::array kQwen3NextFused = {
    FusedRow{"mlp.experts.@.gate_proj.weight",        "mlp.experts.gate_up_proj",        TensorTransform::FirstHalf},
    FusedRow{"mlp.experts.@.up_proj.weight",          "mlp.experts.gate_up_proj",        TensorTransform::SecondHalf},
    FusedRow{"mlp.experts.@.down_proj.weight",        "mlp.experts.down_proj",           TensorTransform::Expert},
    FusedRow{"linear_attn.in_proj_qkv.weight",        "linear_attn.in_proj_qkvz.weight", TensorTransform::QkvzQkv},
    FusedRow{"linear_attn.in_proj_z.weight",          "linear_attn.in_proj_qkvz.weight", TensorTransform::QkvzZ},
    FusedRow{"linear_attn.in_proj_b.weight",          "linear_attn.in_proj_ba.weight",   TensorTransform::BaB},
    FusedRow{"linear_attn.in_proj_a.weight",          "linear_attn.in_proj_ba.weight",   TensorTransform::BaA},
};
// clang-format on

std::vector<plan::ModuleSpec> hybrid_shared_expert(const Builder& build, std::int64_t layer) {
  const MoeConfig& moe = build.config().moe;
  const std::string name = layer_name(layer) + ".mlp.shared_expert";
  std::vector<plan::ModuleSpec> shared;
  if (moe.shared_expert_intermediate_size == 0) return shared;
  shared.push_back(build.mlp(name, moe.shared_expert_intermediate_size));
  shared.push_back(build.linear(name + "_gate", build.config().hidden_size, 1));
  return shared;
}

plan::Blueprint build_hybrid(Builder& build) {
  const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"),
                       .router_class = build.class_name("TopKRouter")};
  return build_sparse(
      build, names,
      [&](std::int64_t layer) {
        return build.config().layer_is_linear(layer) ? build.delta_net(layer)
                                                     : build.attention(layer);
      },
      [&](std::int64_t layer) { return hybrid_shared_expert(build, layer); });
}

constexpr std::array kQwen35PreTokenizers = {
    formats::PreTokenizerName{"qwen35", "qwen35"},
};

constexpr GgufTraits kQwen35Gguf = {.architecture = "qwen35moe",
                                    .qk_norm = true,
                                    .shared_expert_gate = true,
                                    .norm_topk_prob = true,
                                    .shared = GgufTraits::Shared::Width,
                                    .read = read_qwen35_gguf,
                                    .write = write_qwen35_gguf};

// A GGUF file holds the text model alone.
constexpr GgufTraits kQwen35WholeGguf = {
    .architecture = "qwen35moe",
    .matches = [](const formats::GgufFields&) { return false; },
    .written_as = "qwen3_5_moe_text",
    .qk_norm = true,
    .shared_expert_gate = true,
    .norm_topk_prob = true,
    .shared = GgufTraits::Shared::Width,
    .read = read_qwen35_gguf,
    .write = write_qwen35_gguf};

}  // namespace

extern const Family kQwen3Next = {
    .model_types = {"qwen3_next"},
    .hf_class = "Qwen3NextForCausalLM",
    .class_prefix = "Qwen3Next",
    .gguf = {.architecture = "qwen3next",
             .qk_norm = true,
             .shared_expert_gate = true,
             .norm_topk_prob = true,
             .shared = GgufTraits::Shared::Width,
             .read = read_hybrid_gguf,
             .write = write_gguf_delta_net},
    .read_hf = read_qwen3_next,
    .tensors = {kHybridNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts, kHybridSharedExpert, kFusedDeltaNet},
    .fused = kQwen3NextFused,
    .norms_plus_one = true,
    .pre_tokenizers = kQwenPreTokenizers,
    .chat = {.builtin_template = "qwen3", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_hybrid,
};

extern const Family kQwen35MoeText = {
    .model_types = {"qwen3_5_moe_text"},
    .hf_class = "Qwen3_5MoeForCausalLM",
    .class_prefix = "Qwen3_5Moe",
    .gguf = kQwen35Gguf,
    .read_hf = read_qwen35_moe_text,
    .tensors = {kHybridNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts, kHybridSharedExpert, kSplitDeltaNet},
    .fused = rows::kFusedExperts,
    .norms_plus_one = true,
    .pre_tokenizers = kQwen35PreTokenizers,
    .chat = {.builtin_template = "qwen3", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_hybrid,
};

extern const Family kQwen35Moe = {
    .model_types = {"qwen3_5_moe"},
    .hf_class = "Qwen3_5MoeForConditionalGeneration",
    .class_prefix = "Qwen3_5Moe",
    .gguf = kQwen35WholeGguf,
    .read_hf = read_qwen35_moe,
    .tensors = {kHybridNorms, rows::kQueryKey, rows::kAttention, rows::kMlp, rows::kExperts,
                rows::kRouterAndFusedExperts, kHybridSharedExpert, kSplitDeltaNet},
    .fused = rows::kFusedExperts,
    .text_prefixes = {NamePrefix{.plain = "model.", .stored = "model.language_model."},
                      NamePrefix{.plain = "model.", .stored = "language_model.model."}},
    .norms_plus_one = true,
    .pre_tokenizers = kQwen35PreTokenizers,
    .chat = {.builtin_template = "qwen3", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_hybrid,
};

}  // namespace graft::models
