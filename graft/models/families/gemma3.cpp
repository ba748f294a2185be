// Gemma 3: grouped-query attention with norms of q and k, a norm before and after each block whose
// factor is 1 + weight, GELU in the gated MLP and scaled embeddings. Most layers have a sliding
// window and their own RoPE base. The multimodal model (gemma3) is built without its vision tower.

#include <array>
#include <cstdint>
#include <string>

#include "graft/models/config/window_layers.h"
#include "graft/models/families/common.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr double kGemmaLocalTheta = 10000.0;
constexpr std::int64_t kGemmaPeriod = 6;

constexpr HfDefaults kGemma3Defaults = {.vocab_size = 262208,
                                        .hidden_size = 2304,
                                        .intermediate_size = 9216,
                                        .num_hidden_layers = 26,
                                        .num_attention_heads = 8,
                                        .num_key_value_heads = 4,
                                        .head_dim = 256,
                                        .max_position_embeddings = 131072,
                                        .rope_theta = 1000000.0};

// Older files have a period instead of "layer_types".
std::int64_t read_period(const Fields& fields) {
  const std::int64_t old_period = fields.integer("_sliding_window_pattern", kGemmaPeriod, 1);
  return fields.integer("sliding_window_pattern", old_period, 1);
}

// "rope_parameters" of recent files has a set per kind of layer.
double read_local_theta(const Fields& fields) {
  const double theta = fields.number("rope_local_base_freq", kGemmaLocalTheta);
  const Fields all = fields.object("rope_parameters");
  if (!all.has("sliding_attention")) return theta;
  const Fields local = all.object("sliding_attention");
  const std::string type = local.text("rope_type", "default");
  if (type != "default") local.problem("rope_type", type, "default in layers with a window");
  return local.number("rope_theta", theta);
}

void check_gemma_variant(const Fields& fields) {
  for (const std::string_view key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const Json* value = fields.find(key))
      fields.problem(key, *value, "null: capped logits are not supported");
  }
  if (fields.boolean("use_bidirectional_attention", false))
    fields.problem("use_bidirectional_attention", true, "false");
}

void read_gemma3_text(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kGemma3Defaults, config);
  read_head_dim(fields, kGemma3Defaults, config);
  read_attention_bias(fields, config);
  check_gemma_variant(fields);
  config.hidden_act = fields.text("hidden_activation", "gelu_pytorch_tanh");
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", true);
  config.qk_norm = true;
  config.scaled_embedding = true;
  config.query_pre_attn_scalar = fields.number("query_pre_attn_scalar", 256.0);
  config.sliding_window = fields.integer("sliding_window", kDefaultWindow);
  if (config.sliding_window > 0) {
    config.window_layers =
        read_window_layers(fields, config.num_hidden_layers, read_period(fields));
    config.local_rope_theta = read_local_theta(fields);
  }
  read_rope(fields, kGemma3Defaults, config);
}

void read_gemma3(const Fields& top, ModelConfig& config) {
  read_gemma3_text(top.object("text_config"), config);
  if (const auto tied = top.boolean("tie_word_embeddings")) config.tie_word_embeddings = *tied;
}

// query_pre_attn_scalar, which has no GGUF key: llama.cpp knows the 27B model, which alone does not
// scale its scores by head_dim, by its layers.
double score_divisor(const ModelConfig& config) {
  constexpr std::int64_t kLayersOf27B = 62;
  const bool is_27b = config.num_hidden_layers == kLayersOf27B && config.num_attention_heads > 0;
  return static_cast<double>(is_27b ? config.hidden_size / config.num_attention_heads
                                    : config.head_dim);
}

void read_gemma3_gguf(const formats::GgufFields& gguf, ModelConfig& config) {
  config.scaled_embedding = true;
  config.query_pre_attn_scalar = gguf.own_number("query_pre_attn_scalar", score_divisor(config));
  if (config.sliding_window == 0) return;
  config.local_rope_theta = gguf.number("rope.freq_base_swa", kGemmaLocalTheta);
  read_gguf_windows(gguf, kGemmaPeriod, config);
}

void write_gemma3_gguf(const ModelConfig& config, formats::GgufKeyWriter& out) {
  if (config.query_pre_attn_scalar != score_divisor(config))
    out.own("query_pre_attn_scalar", config.query_pre_attn_scalar);
  if (config.sliding_window == 0) return;
  out.number("rope.freq_base_swa", config.local_rope_theta);
  write_gguf_windows(config, kGemmaPeriod, out);
}

constexpr std::array kGemmaNorms = {
    TensorRow{"input_layernorm.weight", "attn_norm.weight"},
    TensorRow{"post_attention_layernorm.weight", "post_attention_norm.weight"},
    TensorRow{"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    TensorRow{"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};

plan::Blueprint build_gemma3(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    return build.gemma_layer(layer, build.attention(layer), build.mlp(layer));
  });
}

constexpr GgufTraits kGemma3Gguf = {.architecture = "gemma3",
                                    .hidden_act = "gelu_pytorch_tanh",
                                    .qk_norm = true,
                                    .read = read_gemma3_gguf,
                                    .write = write_gemma3_gguf};

// A GGUF file holds the text model alone.
constexpr GgufTraits kGemma3WholeGguf = {
    .architecture = "gemma3",
    .matches = [](const formats::GgufFields&) { return false; },
    .written_as = "gemma3_text",
    .hidden_act = "gelu_pytorch_tanh",
    .qk_norm = true,
    .read = read_gemma3_gguf,
    .write = write_gemma3_gguf};

}  // namespace

extern const Family kGemma3Text = {
    .model_types = {"gemma3_text"},
    .hf_class = "Gemma3ForCausalLM",
    .class_prefix = "Gemma3",
    .gguf = kGemma3Gguf,
    .read_hf = read_gemma3_text,
    .tensors = {kGemmaNorms, rows::kQueryKey, rows::kAttention, rows::kMlp},
    .norms_plus_one = true,
    .chat = {.builtin_template = "gemma"},
    .build = build_gemma3,
};

extern const Family kGemma3 = {
    .model_types = {"gemma3"},
    .hf_class = "Gemma3ForConditionalGeneration",
    .class_prefix = "Gemma3",
    .gguf = kGemma3WholeGguf,
    .read_hf = read_gemma3,
    .tensors = {kGemmaNorms, rows::kQueryKey, rows::kAttention, rows::kMlp},
    .text_prefixes = {NamePrefix{.plain = "", .stored = "language_model."},
                      NamePrefix{.plain = "model.", .stored = "model.language_model."}},
    .norms_plus_one = true,
    .chat = {.builtin_template = "gemma"},
    .build = build_gemma3,
};

}  // namespace graft::models
