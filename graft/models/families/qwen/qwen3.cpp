// Qwen3: Llama with an RMSNorm on every head of q and k.

#include "graft/models/families/qwen/qwen.h"

namespace graft::models {
namespace {

constexpr HfDefaults kQwen3Defaults = {.vocab_size = 151936,
                                       .hidden_size = 4096,
                                       .intermediate_size = 22016,
                                       .num_hidden_layers = 32,
                                       .num_attention_heads = 32,
                                       .num_key_value_heads = 32,
                                       .head_dim = 128,
                                       .max_position_embeddings = 32768};

void read_qwen3(const formats::Fields& fields, ModelConfig& config) {
  read_qwen3_attention(fields, kQwen3Defaults, 28, config);
  read_rope(fields, kQwen3Defaults, config);
}

}  // namespace

void read_qwen3_attention(const formats::Fields& fields,
                          const HfDefaults& defaults,
                          std::int64_t default_max_window_layers,
                          ModelConfig& config) {
  read_sizes(fields, defaults, config);
  read_head_dim(fields, defaults, config);
  read_attention_bias(fields, config);
  config.qk_norm = true;
  read_optional_window(fields, default_max_window_layers, config);
}

extern const Family kQwen3 = {
    .model_types = {"qwen3"},
    .hf_class = "Qwen3ForCausalLM",
    .class_prefix = "Qwen3",
    .gguf = {.architecture = "qwen3", .qk_norm = true},
    .read_hf = read_qwen3,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMlp},
    .pre_tokenizers = kQwenPreTokenizers,
    .chat = {.builtin_template = "qwen3", .tool_calls = formats::ToolCallFormat::Hermes},
    .build = build_dense,
};

}  // namespace graft::models
