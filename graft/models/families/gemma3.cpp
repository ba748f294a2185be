// Gemma 3: grouped-query attention with norms of q and k, a norm before and after each block whose
// factor is 1 + weight, GELU in the gated MLP and scaled embeddings. Most layers have a sliding
// window and their own RoPE base. The multimodal model (gemma3) is built without its vision tower.

#include <algorithm>
#include <string>
#include <vector>

#include "graft/models/families/common.h"

namespace graft::models {
namespace {

using formats::Fields;

constexpr HfDefaults kGemma3Defaults = {.vocab_size = 262208,
                                        .hidden_size = 2304,
                                        .intermediate_size = 9216,
                                        .num_hidden_layers = 26,
                                        .num_attention_heads = 8,
                                        .num_key_value_heads = 4,
                                        .head_dim = 256,
                                        .max_position_embeddings = 131072,
                                        .rope_theta = 1000000.0};

// "layer_types", or a period in older files: the last of every `sliding_window_pattern` layers
// attends to all tokens.
std::vector<bool> read_window_layers(const Fields& fields, std::int64_t num_layers) {
  std::vector<bool> windows;
  if (fields.has("layer_types")) {
    const std::vector<std::string> types = fields.texts("layer_types");
    const bool is_known = std::ranges::all_of(types, [](const std::string& type) {
      return type == "sliding_attention" || type == "full_attention";
    });
    if (!is_known || static_cast<std::int64_t>(types.size()) != num_layers) {
      fields.problem("layer_types", *fields.find("layer_types"),
                     "sliding_attention or full_attention for every layer");
    }
    for (const std::string& type : types)
      windows.push_back(type == "sliding_attention");
    return windows;
  }
  const std::int64_t old_period = fields.integer("_sliding_window_pattern", 6, 1);
  const std::int64_t period = fields.integer("sliding_window_pattern", old_period, 1);
  constexpr std::int64_t kMaxLayers = 4096;  // validate() reports more
  for (std::int64_t layer = 0; layer < std::min(num_layers, kMaxLayers); ++layer)
    windows.push_back((layer + 1) % period != 0);
  return windows;
}

// "rope_parameters" of recent files has a set per kind of layer.
double read_local_theta(const Fields& fields) {
  const double theta = fields.number("rope_local_base_freq", 10000.0);
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
    config.window_layers = read_window_layers(fields, config.num_hidden_layers);
    config.local_rope_theta = read_local_theta(fields);
  }
  read_rope(fields, kGemma3Defaults, config);
}

void read_gemma3(const Fields& top, ModelConfig& config) {
  read_gemma3_text(top.object("text_config"), config);
  if (const auto tied = top.boolean("tie_word_embeddings")) config.tie_word_embeddings = *tied;
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

constexpr GgufTraits kGemma3Gguf = {
    .architecture = "gemma3", .hidden_act = "gelu_pytorch_tanh", .gemma = true, .qk_norm = true};

// A GGUF file holds the text model alone.
constexpr GgufTraits kGemma3WholeGguf = {
    .architecture = "gemma3",
    .matches = [](const formats::GgufFields&) { return false; },
    .written_as = "gemma3_text",
    .hidden_act = "gelu_pytorch_tanh",
    .gemma = true,
    .qk_norm = true};

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
