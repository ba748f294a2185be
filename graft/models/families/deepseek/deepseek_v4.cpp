// DeepSeek-V4: hyper-connections instead of a residual stream, attention over a sliding window and
// compressed entries, and routed experts in every layer, which the first layers look up by token.
// Published checkpoints name their tensors otherwise than the modules of Transformers. Nothing is
// built for the next-token-prediction layers.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/models/families/common.h"
#include "graft/models/families/deepseek/deepseek_v4_names.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;
using formats::GgufKeyWriter;
using Kind = CompressedConfig::Kind;

constexpr HfDefaults kV4Defaults = {.vocab_size = 129280,
                                    .hidden_size = 4096,
                                    .intermediate_size = 2048,
                                    .num_hidden_layers = 43,
                                    .num_attention_heads = 64,
                                    .num_key_value_heads = 1,
                                    .head_dim = 512,
                                    .max_position_embeddings = 1048576,
                                    .partial_rotary_factor = 0.125};

constexpr HfMoeDefaults kV4Moe = {.num_experts = 256,
                                  .num_experts_per_tok = 6,
                                  .moe_intermediate_size = 2048,
                                  .num_shared_experts = 1,
                                  .norm_topk_prob = true,
                                  .routed_scaling_factor = 1.5,
                                  .scoring_func = RouterScoring::SqrtSoftplus,
                                  .topk_method = RouterMethod::NoauxTc};

constexpr std::int64_t kSparseRate = 4;
constexpr std::int64_t kHeavyRate = 128;
constexpr std::int64_t kWindow = 128;
constexpr std::int64_t kHashLayers = 3;
constexpr double kCompressTheta = 160000.0;
constexpr double kV4SwigluLimit = 10.0;

constexpr std::array<std::pair<std::string_view, Kind>, 3> kKindNames = {{
    {"sliding_attention", Kind::Window},
    {"compressed_sparse_attention", Kind::Sparse},
    {"heavily_compressed_attention", Kind::Heavy},
}};

std::vector<Kind> named_kinds(const Fields& fields) {
  std::vector<Kind> kinds;
  for (const std::string& type : fields.texts("layer_types")) {
    const auto* const found =
        std::ranges::find(kKindNames, type, &std::pair<std::string_view, Kind>::first);
    if (found == kKindNames.end()) {
      fields.problem("layer_types", type,
                     "sliding_attention, compressed_sparse_attention or "
                     "heavily_compressed_attention");
      return {};
    }
    kinds.push_back(found->second);
  }
  return kinds;
}

// Two heavy layers, then heavy and sparse ones in turns.
std::vector<Kind> default_kinds(std::int64_t num_layers) {
  constexpr std::int64_t kMaxV4Layers = 4096;  // validate() reports more
  std::vector<Kind> kinds;
  for (std::int64_t layer = 0; layer < std::min(num_layers, kMaxV4Layers); ++layer)
    kinds.push_back(layer >= 2 && layer % 2 == 1 ? Kind::Sparse : Kind::Heavy);
  return kinds;
}

// Of the rates of older config.json and of GGUF files; 0: no compressor.
std::vector<Kind> kinds_of_rates(const std::vector<std::int64_t>& rates, std::int64_t sparse_rate) {
  std::vector<Kind> kinds;
  kinds.reserve(rates.size());
  for (const std::int64_t rate : rates) {
    kinds.push_back(rate == 0 ? Kind::Window : rate == sparse_rate ? Kind::Sparse : Kind::Heavy);
  }
  return kinds;
}

void read_compressed(const Fields& fields, ModelConfig& config) {
  CompressedConfig& compressed = config.compressed;
  const Fields rates = fields.object("compress_rates");
  compressed.sparse_rate = fields.integer(
      "compress_rate_csa", rates.integer("compressed_sparse_attention", kSparseRate, 1), 1);
  compressed.heavy_rate = fields.integer(
      "compress_rate_hca", rates.integer("heavily_compressed_attention", kHeavyRate, 1), 1);
  compressed.output_groups = fields.integer("o_groups", 8, 1);
  compressed.output_lora_rank = fields.integer("o_lora_rank", 1024, 1);
  if (fields.has("layer_types")) {
    compressed.layers = named_kinds(fields);
  } else if (fields.has("compress_ratios")) {
    compressed.layers = kinds_of_rates(fields.integers("compress_ratios"), kSparseRate);
  } else {
    compressed.layers = default_kinds(config.num_hidden_layers);
  }
  // Entries after the last layer are of next-token-prediction layers.
  if (static_cast<std::int64_t>(compressed.layers.size()) > config.num_hidden_layers)
    compressed.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
}

// "mlp_layer_types": layers with a table first.
void read_hash_layers(const Fields& fields, ModelConfig& config) {
  config.moe.num_hash_layers =
      std::min(fields.integer("num_hash_layers", kHashLayers), config.num_hidden_layers);
  if (!fields.has("mlp_layer_types")) return;
  const std::vector<std::string> types = fields.texts("mlp_layer_types");
  const auto first = std::ranges::find(types, "moe");
  const bool is_known =
      std::ranges::all_of(types.begin(), first,
                          [](const auto& type) { return type == "hash_moe"; }) &&
      std::ranges::all_of(first, types.end(), [](const auto& type) { return type == "moe"; });
  if (!is_known || static_cast<std::int64_t>(types.size()) != config.num_hidden_layers) {
    return fields.problem("mlp_layer_types", *fields.find("mlp_layer_types"),
                          str(config.num_hidden_layers, " times hash_moe or moe, hash_moe first"));
  }
  config.moe.num_hash_layers = first - types.begin();
}

// Layers with a compressor have a frequency base of their own, and only they scale it.
void read_v4_rope(const Fields& fields, ModelConfig& config) {
  read_rope(fields, kV4Defaults, config);
  const Fields all = fields.object("rope_parameters");
  if (all.has("compress")) {
    config.local_rope_theta =
        all.object("main").number("rope_theta", fields.number("rope_theta", 10000.0));
  } else {
    config.local_rope_theta = config.rope.theta;
    config.rope.theta = fields.number("compress_rope_theta", kCompressTheta);
  }
  if (!fields.has("partial_rotary_factor") && fields.has("qk_rope_head_dim"))
    config.rotary_dim = fields.integer("qk_rope_head_dim", 64, 2);
  if (config.rope.kind == RopeKind::Yarn && !config.rope.attention_factor)
    config.rope.attention_factor = 1.0;
}

void read_v4_experts(const Fields& fields, ModelConfig& config) {
  if (!read_moe(fields, kV4Moe, config))
    return fields.problem("n_routed_experts", 0, "an integer above 0");
  read_shared_experts(fields, kV4Moe, config);
  config.intermediate_size = config.moe.moe_intermediate_size;
  config.moe.swiglu_limit = fields.number("swiglu_limit", kV4SwigluLimit);
  config.moe.limits_silu = true;
  if (!config.moe.norm_topk_prob) fields.problem("norm_topk_prob", false, "true");
  read_hash_layers(fields, config);
}

void read_v4(const Fields& fields, ModelConfig& config) {
  read_sizes(fields, kV4Defaults, config);
  read_head_dim(fields, kV4Defaults, config);
  config.num_nextn_predict_layers = 0;
  config.mla.q_lora_rank = fields.integer("q_lora_rank", 1024, 1);
  config.sliding_window = fields.integer("sliding_window", kWindow, 1);
  config.attention_sinks = true;
  config.rope_interleaved = true;
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (fields.boolean(key, false)) fields.problem(key, true, "false");
  }
  config.indexer.num_heads = fields.integer("index_n_heads", 64, 1);
  config.indexer.head_dim = fields.integer("index_head_dim", 128, 1);
  config.indexer.top_k = fields.integer("index_topk", 512, 1);
  config.hyper.mult = fields.integer("hc_mult", 4, 1);
  config.hyper.sinkhorn_iters = fields.integer("hc_sinkhorn_iters", 20, 1);
  config.hyper.eps = fields.number("hc_eps", 1e-6);
  read_compressed(fields, config);
  read_v4_experts(fields, config);
  read_v4_rope(fields, config);
}

// One number, or one per layer.
double first_number(const GgufFields& gguf, std::string_view suffix, double fallback) {
  const formats::GgufValue* value = gguf.metadata().find(gguf.key(suffix));
  const auto* array = value == nullptr ? nullptr : std::get_if<formats::GgufArray>(value);
  if (array == nullptr) return gguf.number(suffix, fallback);
  const auto numbers = array->numbers();
  return numbers && !numbers->empty() ? formats::decimal_of_f32(numbers->front()) : fallback;
}

void read_v4_gguf(const GgufFields& gguf, ModelConfig& config) {
  CompressedConfig& compressed = config.compressed;
  config.attention_sinks = true;
  config.mla.q_lora_rank = gguf.required("attention.q_lora_rank");
  config.indexer.num_heads = gguf.required("attention.indexer.head_count");
  config.indexer.head_dim = gguf.required("attention.indexer.key_length");
  config.indexer.top_k = gguf.required("attention.indexer.top_k");
  compressed.output_groups = gguf.required("attention.output_group_count");
  compressed.output_lora_rank = gguf.required("attention.output_lora_rank");
  compressed.sparse_rate = gguf.own_integer("sparse_rate", kSparseRate);
  compressed.heavy_rate = gguf.own_integer("heavy_rate", kHeavyRate);
  const formats::GgufArray* rates = gguf.metadata().array(gguf.key("attention.compress_ratios"));
  if (rates != nullptr) {
    compressed.layers = kinds_of_rates(rates->integers().value_or(std::vector<std::int64_t>()),
                                       compressed.sparse_rate);
  }
  const auto num_layers =
      static_cast<std::size_t>(std::max<std::int64_t>(config.num_hidden_layers, 0));
  if (compressed.layers.size() > num_layers) compressed.layers.resize(num_layers);
  config.hyper.mult = gguf.required("hyper_connection.count");
  config.hyper.sinkhorn_iters = gguf.required("hyper_connection.sinkhorn_iterations");
  config.hyper.eps = gguf.number("hyper_connection.epsilon", 1e-6);
  config.moe.num_hash_layers = gguf.integer("hash_layer_count", 0);
  config.moe.swiglu_limit = first_number(gguf, "swiglu_clamp_exp", kV4SwigluLimit);
  config.moe.limits_silu = true;
  config.local_rope_theta = config.rope.theta;
  config.rope.theta = gguf.number("attention.compress_rope_freq_base", kCompressTheta);
  if (config.rope.kind == RopeKind::Yarn && !config.rope.attention_factor)
    config.rope.attention_factor = 1.0;
}

void write_v4_gguf(const ModelConfig& config, GgufKeyWriter& out) {
  const CompressedConfig& compressed = config.compressed;
  out.integer("attention.q_lora_rank", config.mla.q_lora_rank);
  out.integer("attention.indexer.head_count", config.indexer.num_heads);
  out.integer("attention.indexer.key_length", config.indexer.head_dim);
  out.integer("attention.indexer.top_k", config.indexer.top_k);
  out.integer("attention.output_group_count", compressed.output_groups);
  out.integer("attention.output_lora_rank", compressed.output_lora_rank);
  std::vector<std::int32_t> rates;
  for (const Kind kind : compressed.layers) {
    rates.push_back(static_cast<std::int32_t>(kind == Kind::Window   ? 0
                                              : kind == Kind::Sparse ? compressed.sparse_rate
                                                                     : compressed.heavy_rate));
  }
  out.metadata().set(str(config.family->gguf.architecture, ".attention.compress_ratios"),
                     formats::GgufArray::of(rates));
  if (compressed.sparse_rate != kSparseRate) out.own_integer("sparse_rate", compressed.sparse_rate);
  if (compressed.heavy_rate != kHeavyRate) out.own_integer("heavy_rate", compressed.heavy_rate);
  out.integer("hyper_connection.count", config.hyper.mult);
  out.integer("hyper_connection.sinkhorn_iterations", config.hyper.sinkhorn_iters);
  out.number("hyper_connection.epsilon", config.hyper.eps);
  out.integer("embedding_length_out", config.hyper.mult * config.hidden_size);
  // A shortened model has the first layers of the original.
  out.integer("hash_layer_count", std::min(config.moe.num_hash_layers, config.num_hidden_layers));
  out.number("swiglu_clamp_exp", config.moe.swiglu_limit);
  out.number("swiglu_clamp_shexp", config.moe.swiglu_limit);
  out.number("rope.freq_base", config.local_rope_theta);
  out.number("attention.compress_rope_freq_base", config.rope.theta);
}

// clang-format off
constexpr std::array kV4Attention = {
    TensorRow{"self_attn.sinks",                                         "attn_sinks.weight"},
    TensorRow{"self_attn.q_a_proj.weight",                               "attn_q_a.weight"},
    TensorRow{"self_attn.q_a_norm.weight",                               "attn_q_a_norm.weight"},
    TensorRow{"self_attn.q_b_proj.weight",                               "attn_q_b.weight"},
    TensorRow{"self_attn.kv_proj.weight",                                "attn_kv.weight"},
    TensorRow{"self_attn.kv_norm.weight",                                "attn_kv_a_norm.weight"},
    TensorRow{"self_attn.o_a_proj.weight",                               "attn_output_a.weight"},
    TensorRow{"self_attn.o_b_proj.weight",                               "attn_output_b.weight"},
    TensorRow{"self_attn.compressor.kv_proj.weight",                     "attn_compressor_kv.weight"},
    TensorRow{"self_attn.compressor.gate_proj.weight",                   "attn_compressor_gate.weight"},
    TensorRow{"self_attn.compressor.position_bias",                      "attn_compressor_ape.weight"},
    TensorRow{"self_attn.compressor.kv_norm.weight",                     "attn_compressor_norm.weight"},
    TensorRow{"self_attn.compressor.indexer.kv_proj.weight",             "indexer_compressor_kv.weight"},
    TensorRow{"self_attn.compressor.indexer.gate_proj.weight",           "indexer_compressor_gate.weight"},
    TensorRow{"self_attn.compressor.indexer.position_bias",              "indexer_compressor_ape.weight"},
    TensorRow{"self_attn.compressor.indexer.kv_norm.weight",             "indexer_compressor_norm.weight"},
    TensorRow{"self_attn.compressor.indexer.q_b_proj.weight",            "indexer.attn_q_b.weight"},
    TensorRow{"self_attn.compressor.indexer.scorer.weights_proj.weight", "indexer.proj.weight"},
    TensorRow{"attn_hc.fn",                                              "hc_attn_fn.weight"},
    TensorRow{"attn_hc.base",                                            "hc_attn_base.weight"},
    TensorRow{"attn_hc.scale",                                           "hc_attn_scale.weight"},
    TensorRow{"ffn_hc.fn",                                               "hc_ffn_fn.weight"},
    TensorRow{"ffn_hc.base",                                             "hc_ffn_base.weight"},
    TensorRow{"ffn_hc.scale",                                            "hc_ffn_scale.weight"},
    TensorRow{"mlp.gate.tid2eid",                                        "ffn_gate_tid2eid.weight"},
};
// clang-format on

constexpr std::array kV4PreTokenizers = {
    formats::PreTokenizerName{"deepseek-v3", "deepseek-v3"},
};

plan::Blueprint build_v4(Builder& build) {
  return build.causal_lm([&](std::int64_t layer) {
    const bool is_hashed = layer < build.config().moe.num_hash_layers;
    const MoeNames names{.moe_class = build.class_name("SparseMoeBlock"),
                         .router_class = build.class_name(is_hashed ? "HashRouter" : "TopKRouter")};
    return build.hyper_layer(layer, build.compressed_attention(layer),
                             build.moe(layer, names, build.shared_experts(layer)));
  });
}

}  // namespace

extern const Family kDeepseekV4 = {
    .model_types = {"deepseek_v4"},
    .hf_class = "DeepseekV4ForCausalLM",
    .class_prefix = "DeepseekV4",
    .gguf = {.architecture = "deepseek4",
             .rope_interleaved = true,
             .scoring = RouterScoring::SqrtSoftplus,
             .method = RouterMethod::NoauxTc,
             .norm_topk_prob = true,
             .shared = GgufTraits::Shared::Count,
             .read = read_v4_gguf,
             .write = write_v4_gguf},
    .read_hf = read_v4,
    .tensors = {rows::kNorms, kV4Attention, rows::kExperts, rows::kRouterAndFusedExperts,
                rows::kSharedExperts},
    .fused = rows::kFusedExperts,
    .module_name = v4_module_name,
    .pre_tokenizers = kV4PreTokenizers,
    .chat = {.builtin_template = "deepseek-v3.2", .tool_calls = formats::ToolCallFormat::Dsml},
    .build = build_v4,
};

}  // namespace graft::models
