// Llama 2 and 3: grouped-query attention and a gated MLP. Mistral adds a sliding window.

#include "graft/models/families/llama.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;

// Three families share the GGUF architecture "llama".
bool is_moe(const GgufFields& gguf) {
  return gguf.integer("expert_count", 0) > 0;
}
bool has_window(const GgufFields& gguf) {
  return gguf.integer("attention.sliding_window", 0) > 0;
}

void read_llama(const Fields& fields, ModelConfig& config) {
  read_llama_layers(fields, kLlamaDefaults, config);
  read_rope(fields, kLlamaDefaults, config);
}

void read_mistral(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kMistralDefaults, config);
  read_head_dim(fields, kMistralDefaults, config);
  read_mistral_window(fields, config);
  read_rope(fields, kMistralDefaults, config);
}

constexpr std::array kLlamaPreTokenizers = {
    formats::PreTokenizerName{"llama-bpe", "llama-bpe"},
    formats::PreTokenizerName{"llama3", "llama-bpe"},
    formats::PreTokenizerName{"llama-v3", "llama-bpe"},
    formats::PreTokenizerName{"falcon3", "llama-bpe"},
    formats::PreTokenizerName{"megrez", "qwen2"},
};

constexpr std::array kMistralPreTokenizers = {
    formats::PreTokenizerName{"tekken", "tekken"},
    formats::PreTokenizerName{"pixtral", "llama-bpe"},
};

// clang-format off
constexpr std::array kLlamaClasses = {
    plan::ClassAlias{"KLlamaAttention", ops::Role::Attention},
    plan::ClassAlias{"KLlamaModel",     ops::Role::Model},
};

constexpr std::array kLlamaBases = {
    plan::ClassBase{"LlamaLinearScalingRotaryEmbedding",     "LlamaRotaryEmbedding"},
    plan::ClassBase{"LlamaDynamicNTKScalingRotaryEmbedding", "LlamaRotaryEmbedding"},
    plan::ClassBase{"LlamaFlashAttention2",                  "LlamaAttention"},
    plan::ClassBase{"LlamaSdpaAttention",                    "LlamaAttention"},
};
// clang-format on

}  // namespace

void read_llama_layers(const Fields& fields, const HfDefaults& defaults, ModelConfig& config) {
  read_sizes(fields, defaults, config);
  read_head_dim(fields, defaults, config);
  read_attention_bias(fields, config);
  config.mlp_bias = fields.boolean("mlp_bias", false);
}

void read_mistral_window(const Fields& fields, ModelConfig& config) {
  const std::int64_t absent = fields.is_null("sliding_window") ? 0 : kDefaultWindow;
  config.sliding_window = fields.integer("sliding_window", absent);
}

extern const Family kLlama = {
    .model_types = {"llama"},
    .hf_class = "LlamaForCausalLM",
    .class_prefix = "Llama",
    .gguf = {.architecture = "llama",
             .matches = [](const GgufFields& gguf) { return !is_moe(gguf) && !has_window(gguf); }},
    .read_hf = read_llama,
    .tensors = {rows::kNorms, rows::kPairedQueryKey, rows::kAttention, rows::kMlp},
    .pre_tokenizers = kLlamaPreTokenizers,
    .build = build_dense,
    .ktransformers_classes = kLlamaClasses,
    .class_bases = kLlamaBases,
};

extern const Family kMistral = {
    .model_types = {"mistral"},
    .hf_class = "MistralForCausalLM",
    .class_prefix = "Mistral",
    .gguf = {.architecture = "llama",
             .matches = [](const GgufFields& gguf) { return !is_moe(gguf) && has_window(gguf); }},
    .read_hf = read_mistral,
    .tensors = {rows::kNorms, rows::kPairedQueryKey, rows::kAttention, rows::kMlp},
    .pre_tokenizers = kMistralPreTokenizers,
    .chat = {.builtin_template = "mistral"},
    .build = build_dense,
};

}  // namespace graft::models
