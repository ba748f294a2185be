// Llama 4, the text model: grouped-query attention within chunks of positions, with an L2 norm of q
// and k; every fourth layer attends to all tokens, without rotary embeddings, and scales its
// queries by the position. Some or all layers have routed experts, whose input (not output) is
// multiplied by the router's score, and a shared expert.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/models/config/window_layers.h"
#include "graft/models/families/common.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;
using formats::GgufKeyWriter;

constexpr HfDefaults kLlama4Defaults = {.vocab_size = 202048,
                                        .hidden_size = 5120,
                                        .intermediate_size = 8192,
                                        .num_hidden_layers = 48,
                                        .num_attention_heads = 40,
                                        .num_key_value_heads = 8,
                                        .head_dim = 128,
                                        .max_position_embeddings = 131072,
                                        .rms_norm_eps = 1e-5,
                                        .rope_theta = 500000.0};

constexpr HfMoeDefaults kLlama4Experts = {.num_experts = 16,
                                          .num_experts_per_tok = 1,
                                          .moe_intermediate_size = 0,
                                          .scoring_func = RouterScoring::Sigmoid};

constexpr std::int64_t kMlpWidth = 16384;
// Of every this many layers the last one has no RoPE.
constexpr std::int64_t kRopePeriod = 4;
constexpr std::int64_t kChunkSize = 8192;
constexpr std::int64_t kTemperatureFloor = 8192;
constexpr double kTemperatureScale = 0.1;

void read_rope_layers(const Fields& fields, ModelConfig& config) {
  const std::vector<std::int64_t> flags = fields.integers("no_rope_layers");
  if (flags.empty()) {
    const std::int64_t interval = fields.integer("no_rope_layer_interval", kRopePeriod, 1);
    config.rope_layers = periodic_windows(interval, config.num_hidden_layers);
    return;
  }
  if (static_cast<std::int64_t>(flags.size()) != config.num_hidden_layers) {
    return fields.problem("no_rope_layers", *fields.find("no_rope_layers"),
                          str(config.num_hidden_layers, " times 0 or 1"));
  }
  for (const std::int64_t flag : flags)
    config.rope_layers.push_back(flag != 0);
}

// Layers with RoPE are chunked, the others attend to all tokens.
void check_layer_types(const Fields& fields, const ModelConfig& config) {
  const std::vector<std::string> types = fields.texts("layer_types");
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool has_rope = config.layer_has_rope(static_cast<std::int64_t>(i));
    const bool is_chunked = has_rope && config.attention_chunk_size > 0;
    const std::string_view expected = is_chunked ? "chunked_attention" : "full_attention";
    if (types[i] != expected)
      return fields.problem("layer_types", types[i], str(expected, " in layer ", i));
  }
}

// Early config files have the number 4 instead of true.
bool has_temperature(const Fields& fields) {
  const Json* value = fields.find("attn_temperature_tuning");
  if (value != nullptr && value->is_number()) return value->get<double>() != 0.0;
  return fields.boolean("attn_temperature_tuning", true);
}

void read_moe_layers(const Fields& fields, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.decoder_sparse_step = fields.integer("interleave_moe_layer_step", 1, 1);
  if (!fields.has("moe_layers")) return;
  const std::vector<std::int64_t> layers = fields.integers("moe_layers");
  std::vector<std::int64_t> dense;
  bool is_periodic = true;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool has_experts = std::ranges::count(layers, layer) > 0;
    if (!has_experts) dense.push_back(layer);
    is_periodic = is_periodic && has_experts == config.layer_has_experts(layer);
  }
  if (is_periodic) return;
  moe.decoder_sparse_step = 1;
  moe.mlp_only_layers = std::move(dense);
}

void read_llama4_text(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kLlama4Defaults, config);
  read_head_dim(fields, kLlama4Defaults, config);
  read_attention_bias(fields, config);
  config.rope_interleaved = true;
  config.qk_l2_norm = fields.boolean("use_qk_norm", true);
  if (!fields.is_null("attention_chunk_size"))
    config.attention_chunk_size = fields.integer("attention_chunk_size", kChunkSize);
  read_rope_layers(fields, config);
  check_layer_types(fields, config);
  if (has_temperature(fields)) {
    config.temperature_floor = fields.integer("floor_scale", kTemperatureFloor, 1);
    config.temperature_scale = fields.number("attn_scale", kTemperatureScale);
  }
  if (!read_moe(fields, kLlama4Experts, config))
    fields.problem("num_local_experts", 0, "an integer above 0");
  config.moe.num_shared_experts = 1;
  config.moe.shared_expert_intermediate_size = config.moe.moe_intermediate_size;
  config.moe.scales_input = true;
  config.intermediate_size = fields.integer("intermediate_size_mlp", kMlpWidth);
  read_moe_layers(fields, config);
  read_rope(fields, kLlama4Defaults, config);
}

void read_llama4(const Fields& top, ModelConfig& config) {
  read_llama4_text(top.object("text_config"), config);
  if (const auto tied = top.boolean("tie_word_embeddings")) config.tie_word_embeddings = *tied;
}

// llama.cpp has no keys for chunks, temperature and norms: it knows the published models.
bool usually_has_l2_norm(const ModelConfig& config) {
  constexpr std::int64_t kExpertsOfMaverick = 128;
  return config.moe.num_experts != kExpertsOfMaverick;
}

constexpr const char* kPatternKey = "attention.sliding_window_pattern";

void read_llama4_gguf(const GgufFields& gguf, ModelConfig& config) {
  config.sliding_window = 0;
  config.moe.decoder_sparse_step = gguf.integer("interleave_moe_layer_step", 1);
  config.moe.num_shared_experts = 1;
  config.moe.shared_expert_intermediate_size = config.moe.moe_intermediate_size;
  config.moe.scales_input = true;
  config.qk_l2_norm = gguf.own_boolean("qk_l2_norm").value_or(usually_has_l2_norm(config));
  // A window of 0 stands for no chunks, and RoPE in every layer.
  const bool is_plain = gguf.integer("attention.sliding_window") == std::int64_t{0};
  config.attention_chunk_size = gguf.own_integer("attention_chunk_size", is_plain ? 0 : kChunkSize);
  config.temperature_floor = gguf.own_integer("temperature_floor", kTemperatureFloor);
  config.temperature_scale = gguf.own_number("temperature_scale", kTemperatureScale);
  const std::int64_t period =
      gguf.integer(kPatternKey, is_plain ? config.num_hidden_layers + 1 : kRopePeriod);
  config.rope_layers = periodic_windows(period, config.num_hidden_layers);
  if (const auto flags = gguf.own_integers("rope_layers"))
    config.rope_layers.assign(flags->begin(), flags->end());
}

void write_llama4_rope_layers(const ModelConfig& config, GgufKeyWriter& out) {
  // A shortened model has the first layers of the original.
  std::vector<bool> layers = config.rope_layers;
  layers.resize(std::min(layers.size(), static_cast<std::size_t>(config.num_hidden_layers)));
  if (layers == periodic_windows(kRopePeriod, config.num_hidden_layers)) return;
  for (std::int64_t period = 1; period <= config.num_hidden_layers + 1; ++period) {
    if (layers == periodic_windows(period, config.num_hidden_layers))
      return out.integer(kPatternKey, period);
  }
  out.own_integers("rope_layers", std::vector<std::int64_t>(layers.begin(), layers.end()));
}

void write_llama4_gguf(const ModelConfig& config, GgufKeyWriter& out) {
  out.integer("interleave_moe_layer_step", config.moe.decoder_sparse_step);
  if (config.qk_l2_norm != usually_has_l2_norm(config)) out.own("qk_l2_norm", config.qk_l2_norm);
  if (config.attention_chunk_size != kChunkSize)
    out.own_integer("attention_chunk_size", config.attention_chunk_size);
  if (config.temperature_floor != kTemperatureFloor)
    out.own_integer("temperature_floor", config.temperature_floor);
  if (config.temperature_scale != kTemperatureScale)
    out.own("temperature_scale", config.temperature_scale);
  write_llama4_rope_layers(config, out);
}

// clang-format off
constexpr std::array kLlama4Layer = {
    TensorRow{"feed_forward.gate_proj.weight",               "ffn_gate.weight"},
    TensorRow{"feed_forward.up_proj.weight",                 "ffn_up.weight"},
    TensorRow{"feed_forward.down_proj.weight",               "ffn_down.weight"},
    TensorRow{"feed_forward.router.weight",                  "ffn_gate_inp.weight"},
    TensorRow{"feed_forward.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    TensorRow{"feed_forward.shared_expert.up_proj.weight",   "ffn_up_shexp.weight"},
    TensorRow{"feed_forward.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    TensorRow{"feed_forward.experts.@.gate_proj.weight",     "ffn_gate_exps.weight", TensorTransform::Expert},
    TensorRow{"feed_forward.experts.@.up_proj.weight",       "ffn_up_exps.weight",   TensorTransform::Expert},
    TensorRow{"feed_forward.experts.@.down_proj.weight",     "ffn_down_exps.weight", TensorTransform::Expert},
    TensorRow{"feed_forward.experts.gate_up_proj",           "ffn_gate_exps.weight", TensorTransform::TransposedFirst},
    TensorRow{"feed_forward.experts.gate_up_proj",           "ffn_up_exps.weight",   TensorTransform::TransposedSecond},
    TensorRow{"feed_forward.experts.down_proj",              "ffn_down_exps.weight", TensorTransform::Transposed},
};

constexpr std::array kLlama4Fused = {
    FusedRow{"feed_forward.experts.@.gate_proj.weight", "feed_forward.experts.gate_up_proj", TensorTransform::TransposedFirst},
    FusedRow{"feed_forward.experts.@.up_proj.weight",   "feed_forward.experts.gate_up_proj", TensorTransform::TransposedSecond},
    FusedRow{"feed_forward.experts.@.down_proj.weight", "feed_forward.experts.down_proj",    TensorTransform::Transposed},
};
// clang-format on

constexpr std::array kLlama4PreTokenizers = {
    formats::PreTokenizerName{"llama4", "gpt-4o"},
};

plan::Blueprint build_llama4(Builder& build) {
  const MoeNames names{.block = "feed_forward",
                       .moe_class = build.class_name("Moe"),
                       .router_class = "Llama4Router",
                       .router = "router"};
  return build.causal_lm([&](std::int64_t layer) {
    const std::string name = layer_name(layer) + ".feed_forward";
    const ModelConfig& config = build.config();
    if (!config.layer_has_experts(layer)) {
      return build.decoder_layer(layer, build.attention(layer),
                                 build.mlp(name, config.intermediate_size));
    }
    return build.decoder_layer(layer, build.attention(layer),
                               build.moe(layer, names,
                                         {build.mlp(name + ".shared_expert",
                                                    config.moe.shared_expert_intermediate_size)}));
  });
}

constexpr GgufTraits kLlama4Gguf = {.architecture = "llama4",
                                    .rope_interleaved = true,
                                    .scoring = RouterScoring::Sigmoid,
                                    .experts_have_mlp_width = true,
                                    .read = read_llama4_gguf,
                                    .write = write_llama4_gguf};

// A GGUF file holds the text model alone.
constexpr GgufTraits kLlama4WholeGguf = {.architecture = "llama4",
                                         .matches = [](const GgufFields&) { return false; },
                                         .written_as = "llama4_text",
                                         .rope_interleaved = true,
                                         .scoring = RouterScoring::Sigmoid,
                                         .experts_have_mlp_width = true,
                                         .read = read_llama4_gguf,
                                         .write = write_llama4_gguf};

}  // namespace

extern const Family kLlama4Text = {
    .model_types = {"llama4_text"},
    .hf_class = "Llama4ForCausalLM",
    .class_prefix = "Llama4Text",
    .gguf = kLlama4Gguf,
    .read_hf = read_llama4_text,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, kLlama4Layer},
    .fused = kLlama4Fused,
    .pre_tokenizers = kLlama4PreTokenizers,
    .chat = {.builtin_template = "llama4", .tool_calls = formats::ToolCallFormat::Llama},
    .build = build_llama4,
};

extern const Family kLlama4 = {
    .model_types = {"llama4"},
    .hf_class = "Llama4ForConditionalGeneration",
    .class_prefix = "Llama4Text",
    .gguf = kLlama4WholeGguf,
    .read_hf = read_llama4,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, kLlama4Layer},
    .fused = kLlama4Fused,
    .text_prefixes = {NamePrefix{.plain = "", .stored = "language_model."},
                      NamePrefix{.plain = "model.", .stored = "model.language_model."}},
    .pre_tokenizers = kLlama4PreTokenizers,
    .chat = {.builtin_template = "llama4", .tool_calls = formats::ToolCallFormat::Llama},
    .build = build_llama4,
};

}  // namespace graft::models
