// Qwen2: Llama with biases on q, k and v.

#include "graft/models/families/qwen/qwen.h"

namespace graft::models {
namespace {

constexpr HfDefaults kQwen2Defaults = {.vocab_size = 151936,
                                       .hidden_size = 4096,
                                       .intermediate_size = 22016,
                                       .num_hidden_layers = 32,
                                       .num_attention_heads = 32,
                                       .num_key_value_heads = 32,
                                       .max_position_embeddings = 32768};

void read_qwen2(const formats::Fields& fields, ModelConfig& config) {
  read_qwen2_attention(fields, kQwen2Defaults, config);
  read_rope(fields, kQwen2Defaults, config);
}

}  // namespace

void read_qwen2_attention(const formats::Fields& fields,
                          const HfDefaults& defaults,
                          ModelConfig& config) {
  read_sizes(fields, defaults, config);
  read_head_dim(fields, defaults, config);
  config.attention_bias = fields.boolean("qkv_bias", true);
  read_optional_window(fields, 28, config);
}

extern const Family kQwen2 = {
    .model_types = {"qwen2"},
    .hf_class = "Qwen2ForCausalLM",
    .class_prefix = "Qwen2",
    .gguf = {.architecture = "qwen2", .attention_bias = true},
    .read_hf = read_qwen2,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMlp},
    .pre_tokenizers = kQwenPreTokenizers,
    .chat = {.builtin_template = "chatml", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_dense,
};

}  // namespace graft::models
