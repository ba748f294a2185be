// DeepSeek-V2 and V3 (also Kimi-K2 and Moonlight): multi-head latent attention, the first layers
// dense, the others with routed and shared experts. V2 scores experts by softmax, V3 by sigmoid
// with a correction bias. Next-token-prediction layers follow the last layer that the config
// counts; nothing is built for them.

#include "graft/models/families/deepseek/deepseek.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;

constexpr HfDefaults kV2Defaults = {.vocab_size = 32000,
                                    .hidden_size = 4096,
                                    .intermediate_size = 11008,
                                    .num_hidden_layers = 32,
                                    .num_attention_heads = 32,
                                    .max_position_embeddings = 2048};

constexpr HfMoeDefaults kV2Moe = {.num_experts = 64,
                                  .num_experts_per_tok = 0,
                                  .moe_intermediate_size = 1407,
                                  .num_shared_experts = 2};

void read_v2(const Fields& fields, ModelConfig& config) {
  read_deepseek(fields, kV2Defaults, kV2Moe, config);
  config.rope_interleaved = true;
}

void read_v3(const Fields& fields, ModelConfig& config) {
  read_deepseek(fields, kDeepseekV3Defaults, kDeepseekV3Moe, config);
  config.rope_interleaved = fields.boolean("rope_interleave", true);
}

// Both share the GGUF architecture "deepseek2".
bool is_v3(const GgufFields& gguf) {
  constexpr std::int64_t kSigmoid = 2;
  return gguf.has_tensor_ending(".exp_probs_b.bias") ||
         gguf.integer("expert_gating_func", 0) == kSigmoid;
}

// Kimi-K2 has the layers of DeepSeek-V3 and a vocabulary of its own.
bool is_kimi(const GgufFields& gguf) {
  return gguf.metadata().string("tokenizer.ggml.pre") == "kimi-k2";
}

// As KTransformers' modeling files name them; its rules match the YaRN class.
std::string rope_class(const Builder& build) {
  switch (build.config().rope.kind) {
    case RopeKind::Yarn:
      return build.class_name("YarnRotaryEmbedding");
    case RopeKind::Linear:
      return build.class_name("LinearScalingRotaryEmbedding");
    case RopeKind::Dynamic:
      return build.class_name("DynamicNTKScalingRotaryEmbedding");
    case RopeKind::Default:
    case RopeKind::Llama3:
    case RopeKind::LongRope:
      break;
  }
  return build.class_name("RotaryEmbedding");
}

constexpr std::array kV2PreTokenizers = {
    formats::PreTokenizerName{"deepseek-llm", "deepseek-llm"},
    formats::PreTokenizerName{"deepseek-coder", "deepseek-coder"},
};

constexpr std::array kV3PreTokenizers = {
    formats::PreTokenizerName{"deepseek-v3", "deepseek-v3"},
    formats::PreTokenizerName{"kimi-k2", "kimi-k2"},
    formats::PreTokenizerName{"joyai-llm", "deepseek-v3"},
};

constexpr formats::ChatTraits kV3Chat = {
    .builtin_template = "deepseek-v3",
    .marked_template = {.token = "<|im_middle|>", .builtin_template = "kimi-k2"},
    .tool_calls = formats::ToolCallFormat::DeepSeek};

// clang-format off
constexpr std::array kV2Classes = {
    plan::ClassAlias{"KDeepseekV2MoE",                  ops::Role::Moe},
    plan::ClassAlias{"KDeepseekV2Attention",            ops::Role::Attention},
    plan::ClassAlias{"KDeepseekV2AttentionW8A8A2",      ops::Role::Attention, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekV2AttentionW8A8A2Serve", ops::Role::Attention, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekV2Model",                ops::Role::Model},
};

constexpr std::array kV2Bases = {
    plan::ClassBase{"DeepseekV2LinearScalingRotaryEmbedding",     "DeepseekV2RotaryEmbedding"},
    plan::ClassBase{"DeepseekV2DynamicNTKScalingRotaryEmbedding", "DeepseekV2RotaryEmbedding"},
    plan::ClassBase{"DeepseekV2YarnRotaryEmbedding",              "DeepseekV2RotaryEmbedding"},
    plan::ClassBase{"DeepseekV2FlashAttention2",                  "DeepseekV2Attention"},
    plan::ClassBase{"DeepseekV2MoEGate",                          "MoEGate"},
};

constexpr std::array kV3Classes = {
    plan::ClassAlias{"KDeepseekV3MoE",          ops::Role::Moe},
    plan::ClassAlias{"KDeepseekV3MoEV2",        ops::Role::Moe},
    plan::ClassAlias{"KDeepseekV3MoEW8A8",      ops::Role::Moe, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekV3GateA2",       ops::Role::Router, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekV3RMSNormW8A8",  ops::Role::Norm, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekRMSNormIPEXLLM", ops::Role::Norm, plan::Platform::Xpu},
    plan::ClassAlias{"kDeepseekV3MLP",          ops::Role::Mlp},
    plan::ClassAlias{"KDeepseekV3MLPW8A8A2V1",  ops::Role::Mlp, plan::Platform::Npu},
    plan::ClassAlias{"KDeepseekV3MLPW8A8A2V2",  ops::Role::Mlp, plan::Platform::Npu},
};

constexpr std::array kV3Bases = {
    plan::ClassBase{"DeepseekV3LinearScalingRotaryEmbedding",     "DeepseekV3RotaryEmbedding"},
    plan::ClassBase{"DeepseekV3DynamicNTKScalingRotaryEmbedding", "DeepseekV3RotaryEmbedding"},
    plan::ClassBase{"DeepseekV3YarnRotaryEmbedding",              "DeepseekV3RotaryEmbedding"},
    plan::ClassBase{"DeepseekV3FlashAttention2",                  "DeepseekV3Attention"},
    plan::ClassBase{"DeepseekV3TopkRouter",                       "MoEGate"},
};
// clang-format on

}  // namespace

void read_deepseek(const Fields& fields,
                   const HfDefaults& defaults,
                   const HfMoeDefaults& moe_defaults,
                   ModelConfig& config) {
  read_sizes(fields, defaults, config);
  read_mla(fields, config);
  read_attention_bias(fields, config);
  if (read_moe(fields, moe_defaults, config)) read_shared_experts(fields, moe_defaults, config);
  read_rope(fields, defaults, config);
}

plan::Blueprint build_deepseek(Builder& build) {
  const std::string rotary = rope_class(build);
  const MoeNames names{.moe_class = build.class_name("MoE"), .router_class = "MoEGate"};
  return build_sparse(
      build, names, [&](std::int64_t layer) { return build.latent_attention(layer, rotary); },
      [&](std::int64_t layer) { return build.shared_experts(layer); });
}

extern const Family kDeepseekV2 = {
    .model_types = {"deepseek_v2"},
    .hf_class = "DeepseekV2ForCausalLM",
    .class_prefix = "DeepseekV2",
    .gguf = {.architecture = "deepseek2",
             .matches = [](const GgufFields& gguf) { return !is_v3(gguf); },
             .mla = true,
             .rope_interleaved = true,
             .shared = GgufTraits::Shared::Count},
    .read_hf = read_v2,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMla, rows::kMlp,
                rows::kExperts, rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kV2PreTokenizers,
    .chat = {.tool_calls = formats::ToolCallFormat::DeepSeek},
    .build = build_deepseek,
    .ktransformers_classes = kV2Classes,
    .class_bases = kV2Bases,
};

extern const Family kDeepseekV3 = {
    .model_types = {"deepseek_v3"},
    .hf_class = "DeepseekV3ForCausalLM",
    .class_prefix = "DeepseekV3",
    .gguf = {.architecture = "deepseek2",
             .matches = [](const GgufFields& gguf) { return is_v3(gguf) && !is_kimi(gguf); },
             .mla = true,
             .rope_interleaved = true,
             .method = RouterMethod::NoauxTc,
             .shared = GgufTraits::Shared::Count},
    .read_hf = read_v3,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMla, rows::kMlp,
                rows::kExperts, rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kV3PreTokenizers,
    .chat = kV3Chat,
    .build = build_deepseek,
    .ktransformers_classes = kV3Classes,
    .class_bases = kV3Bases,
};

extern const Family kKimiK2 = {
    .model_types = {"kimi_k2"},
    .hf_class = "DeepseekV3ForCausalLM",
    .class_prefix = "DeepseekV3",
    .gguf = {.architecture = "deepseek2",
             .matches = [](const GgufFields& gguf) { return is_v3(gguf) && is_kimi(gguf); },
             .mla = true,
             .rope_interleaved = true,
             .method = RouterMethod::NoauxTc,
             .shared = GgufTraits::Shared::Count},
    .read_hf = read_v3,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMla, rows::kMlp,
                rows::kExperts, rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kV3PreTokenizers,
    .chat = kV3Chat,
    .build = build_deepseek,
};

}  // namespace graft::models
