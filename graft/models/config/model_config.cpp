#include "graft/models/config/model_config.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "graft/base/error.h"

namespace graft::models {
namespace {

// Far above any model, and small enough that the product of any three sizes of a weight fits in 63
// bits: code after validate() need not check for overflow.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxExperts = 8192;
constexpr std::int64_t kMaxImageSize = 4096;
constexpr std::int64_t kMaxPositions = (std::int64_t{1} << 31) - 1;
// GGUF and the kernels store these values as f32.
constexpr double kMinNumber = 1e-30;
constexpr double kMaxNumber = 1e30;

// Collects the invalid values for one Error.
class Problems {
 public:
  void range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value >= low && value <= high) return;
    add(field, value, str("an integer from ", low, " to ", high));
  }

  void positive(std::string_view field, double value) {
    if (value >= kMinNumber && value <= kMaxNumber) return;
    add(field, value, str("a number from ", kMinNumber, " to ", kMaxNumber));
  }

  void moderate(std::string_view field, std::optional<double> value) {
    if (!value || std::abs(*value) <= kMaxNumber) return;
    add(field, *value, str("a number up to ", kMaxNumber));
  }

  template <class Value>
  void add(std::string_view field, const Value& value, const std::string& expected) {
    if (!text_.empty()) text_ += "; ";
    text_ += str('"', field, "\" is ", value, ", expected ", expected);
  }

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool has_dense_layer(const ModelConfig& config) {
  for (std::int64_t layer = 0; layer < std::min(config.num_hidden_layers, kMaxLayers); ++layer) {
    if (!config.layer_has_experts(layer)) return true;
  }
  return false;
}

void check_sizes(const ModelConfig& config, Problems& problems) {
  problems.range("vocab_size", config.vocab_size, 1, kMaxVocab);
  problems.range("hidden_size", config.hidden_size, 1, kMaxSize);
  problems.range("num_hidden_layers", config.num_hidden_layers, 1, kMaxLayers);
  problems.range("num_nextn_predict_layers", config.num_nextn_predict_layers, 0, kMaxLayers);
  problems.range("max_position_embeddings", config.max_position_embeddings, 1, kMaxPositions);
  problems.range("intermediate_size", config.intermediate_size, has_dense_layer(config) ? 1 : 0,
                 kMaxSize);
  problems.range("sliding_window", config.sliding_window, 0, kMaxPositions);
  problems.range("max_window_layers", config.max_window_layers, 0, kMaxPositions);
  problems.range("attention_chunk_size", config.attention_chunk_size, 0, kMaxPositions);
  problems.range("floor_scale", config.temperature_floor, 0, kMaxPositions);
  problems.moderate("attn_scale", config.temperature_scale);
  problems.positive("rms_norm_eps", config.rms_norm_eps);
  if (config.local_rope_theta != 0.0)
    problems.positive("rope_local_base_freq", config.local_rope_theta);
  if (config.query_pre_attn_scalar != 0.0)
    problems.positive("query_pre_attn_scalar", config.query_pre_attn_scalar);
}

void check_attention(const ModelConfig& config, Problems& problems) {
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t kv_heads = config.num_key_value_heads;
  problems.range("num_attention_heads", heads, 1, kMaxSize);
  problems.range("num_key_value_heads", kv_heads, 1, kMaxSize);
  if (heads > 0 && kv_heads > 0 && heads % kv_heads != 0) {
    problems.add("num_key_value_heads", kv_heads,
                 str("a divisor of the ", heads, " attention heads"));
  }
  problems.range("head_dim", config.head_dim, 1, kMaxSize);
  if (config.rotary_dim < 2 || config.rotary_dim > config.head_dim || config.rotary_dim % 2 != 0) {
    problems.add("rotary_dim", config.rotary_dim,
                 str("an even number from 2 to head_dim ", config.head_dim));
  }
  if (!config.is_mla()) return;

  const MlaConfig& mla = config.mla;
  problems.range("q_lora_rank", mla.q_lora_rank, 0, kMaxSize);
  problems.range("kv_lora_rank", mla.kv_lora_rank, 1, kMaxSize);
  problems.range("qk_nope_head_dim", mla.qk_nope_head_dim, 1, kMaxSize);
  problems.range("qk_rope_head_dim", mla.qk_rope_head_dim, 1, kMaxSize);
  problems.range("v_head_dim", mla.v_head_dim, 1, kMaxSize);
  if (config.head_dim != mla.qk_nope_head_dim + mla.qk_rope_head_dim) {
    problems.add("head_dim", config.head_dim, "qk_nope_head_dim + qk_rope_head_dim");
  }
}

void check_delta_net(const ModelConfig& config, Problems& problems) {
  const DeltaNetConfig& net = config.delta_net;
  if (net.layers.empty()) return;
  constexpr std::int64_t kMaxHeads = 4096;
  constexpr std::int64_t kMaxHeadDim = 4096;
  constexpr std::int64_t kMaxKernel = 16;
  problems.range("linear_num_key_heads", net.num_key_heads, 1, kMaxHeads);
  problems.range("linear_num_value_heads", net.num_value_heads, 1, kMaxHeads);
  problems.range("linear_key_head_dim", net.key_head_dim, 1, kMaxHeadDim);
  problems.range("linear_value_head_dim", net.value_head_dim, 1, kMaxHeadDim);
  problems.range("linear_conv_kernel_dim", net.conv_kernel_dim, 1, kMaxKernel);
  if (net.num_key_heads > 0 && net.num_value_heads % net.num_key_heads != 0) {
    problems.add("linear_num_value_heads", net.num_value_heads,
                 str("a multiple of the ", net.num_key_heads, " key heads"));
  }
  if (std::ranges::count(net.layers, false) == 0)
    problems.add("layer_types", "linear_attention only", "one full_attention or more");
}

void check_indexer(const ModelConfig& config, Problems& problems) {
  const IndexerConfig& indexer = config.indexer;
  if (indexer.num_heads == 0) return;
  problems.range("index_n_heads", indexer.num_heads, 1, kMaxSize);
  problems.range("index_topk", indexer.top_k, 1, kMaxPositions);
  const std::int64_t rope_dim =
      config.is_compressed() ? config.rotary_dim : config.mla.qk_rope_head_dim;
  problems.range("index_head_dim", indexer.head_dim, rope_dim, kMaxSize);
  problems.range("q_lora_rank", config.mla.q_lora_rank, 1, kMaxSize);
  if (!config.layer_has_indexer(0))
    problems.add("indexer_types", "shared in layer 0", "full: no layer before has an indexer");
}

void check_compressed(const ModelConfig& config, Problems& problems) {
  if (!config.is_compressed()) return;
  constexpr std::int64_t kMaxRate = 65536;
  const CompressedConfig& compressed = config.compressed;
  const std::int64_t groups = compressed.output_groups;
  problems.range("q_lora_rank", config.mla.q_lora_rank, 1, kMaxSize);
  problems.range("sliding_window", config.sliding_window, 1, kMaxPositions);
  problems.range("num_key_value_heads", config.num_key_value_heads, 1, 1);
  problems.range("compressed_sparse_attention", compressed.sparse_rate, 2, kMaxRate);
  problems.range("heavily_compressed_attention", compressed.heavy_rate, 2, kMaxRate);
  problems.range("o_lora_rank", compressed.output_lora_rank, 1, kMaxSize);
  problems.range("o_groups", groups, 1, kMaxSize);
  if (groups > 0 && config.num_attention_heads % groups != 0) {
    problems.add("o_groups", groups,
                 str("a divisor of the ", config.num_attention_heads, " attention heads"));
  }
  if (static_cast<std::int64_t>(compressed.layers.size()) != config.num_hidden_layers) {
    problems.add("layer_types", str(compressed.layers.size(), " layers"),
                 str("one for each of the ", config.num_hidden_layers, " layers"));
  }
}

void check_hyper(const HyperConfig& hyper, Problems& problems) {
  if (hyper.mult == 0) return;
  constexpr std::int64_t kMaxStreams = 16;
  constexpr std::int64_t kMaxIterations = 1000;
  problems.range("hc_mult", hyper.mult, 1, kMaxStreams);
  problems.range("hc_sinkhorn_iters", hyper.sinkhorn_iters, 1, kMaxIterations);
  problems.positive("hc_eps", hyper.eps);
}

void check_long_rope(const ModelConfig& config, Problems& problems) {
  const RopeConfig& rope = config.rope;
  if (rope.kind != RopeKind::LongRope) return;
  problems.moderate("attention_factor", rope.attention_factor);
  const auto check = [&](std::string_view field, const std::vector<float>& factors) {
    if (static_cast<std::int64_t>(factors.size()) * 2 != config.rotary_dim) {
      problems.add(field, str(factors.size(), " numbers"),
                   str("half of rotary_dim ", config.rotary_dim));
    }
    for (const float factor : factors)
      problems.positive(field, static_cast<double>(factor));
  };
  check("short_factor", rope.short_factor);
  check("long_factor", rope.long_factor);
}

void check_rope(const RopeConfig& rope, Problems& problems) {
  problems.positive("rope_theta", rope.theta);
  problems.positive("factor", rope.factor);
  problems.range("original_max_position_embeddings", rope.original_max_position_embeddings, 0,
                 kMaxPositions);
  if (rope.kind == RopeKind::Yarn) {
    problems.positive("beta_fast", rope.beta_fast);
    problems.positive("beta_slow", rope.beta_slow);
    problems.moderate("mscale", rope.mscale);
    problems.moderate("mscale_all_dim", rope.mscale_all_dim);
    problems.moderate("attention_factor", rope.attention_factor);
  }
  if (rope.kind == RopeKind::Llama3) {
    problems.positive("low_freq_factor", rope.low_freq_factor);
    problems.positive("high_freq_factor", rope.high_freq_factor);
    if (rope.high_freq_factor < rope.low_freq_factor) {
      problems.add("high_freq_factor", rope.high_freq_factor,
                   str("at least low_freq_factor ", rope.low_freq_factor));
    }
  }
  const bool needs_original = rope.kind == RopeKind::Yarn || rope.kind == RopeKind::Llama3 ||
                              rope.kind == RopeKind::LongRope;
  if (needs_original && rope.original_max_position_embeddings < 1) {
    problems.add("original_max_position_embeddings", rope.original_max_position_embeddings,
                 "an integer above 0 for this rope_type");
  }
}

void check_generation(const ModelConfig& config, Problems& problems) {
  for (const std::int64_t id : config.eos_token_ids) {
    problems.range("eos_token_id", id, 0, kMaxVocab);
  }
  problems.range("bos_token_id", config.bos_token_id.value_or(0), 0, kMaxVocab);
  problems.range("pad_token_id", config.pad_token_id.value_or(0), 0, kMaxVocab);
  problems.moderate("temperature", config.temperature);
  problems.moderate("top_p", config.top_p);
  problems.range("top_k", config.top_k.value_or(0), -1, kMaxPositions);
}

void check_groups(const MoeConfig& moe, Problems& problems) {
  problems.range("n_group", moe.n_group, 1, std::max<std::int64_t>(moe.num_experts, 1));
  problems.range("topk_group", moe.topk_group, 1, std::max<std::int64_t>(moe.n_group, 1));
  if (moe.n_group < 1 || moe.topk_group < 1) return;
  if (moe.num_experts % moe.n_group != 0) {
    problems.add("n_group", moe.n_group, str("a divisor of the ", moe.num_experts, " experts"));
    return;
  }
  const std::int64_t group = moe.num_experts / moe.n_group;
  if (moe.topk_method != RouterMethod::Greedy &&
      moe.num_experts_per_tok > std::min(moe.topk_group, moe.n_group) * group) {
    problems.add(
        "num_experts_per_tok", moe.num_experts_per_tok,
        str("at most the ", moe.topk_group, " x ", group, " experts of the chosen groups"));
  }
  // Groups are ranked by the sum of their two best experts.
  if (moe.topk_method == RouterMethod::NoauxTc && moe.n_group > 1 && group < 2) {
    problems.add("n_group", moe.n_group, "groups of two experts or more");
  }
}

void check_experts(const ModelConfig& config, Problems& problems) {
  const MoeConfig& moe = config.moe;
  problems.range("num_experts", moe.num_experts, 0, kMaxExperts);
  if (!config.is_moe()) return;
  problems.range("num_experts_per_tok", moe.num_experts_per_tok, 1, moe.num_experts);
  problems.range("moe_intermediate_size", moe.moe_intermediate_size, 1, kMaxSize);
  problems.range("num_shared_experts", moe.num_shared_experts, 0, kMaxExperts);
  problems.range("shared_expert_intermediate_size", moe.shared_expert_intermediate_size,
                 moe.num_shared_experts > 0 ? 1 : 0, kMaxSize);
  problems.range("first_k_dense_replace", moe.first_k_dense_replace, 0, kMaxLayers);
  problems.range("decoder_sparse_step", moe.decoder_sparse_step, 1, kMaxLayers);
  problems.positive("routed_scaling_factor", moe.routed_scaling_factor);
  problems.range("num_hash_layers", moe.num_hash_layers, 0, config.num_hidden_layers);
  if (moe.limits_silu || moe.swiglu_limit != 0.0)
    problems.positive("swiglu_limit", moe.swiglu_limit);
  if (moe.scales_input && moe.num_experts_per_tok != 1) {
    problems.add("num_experts_per_tok", moe.num_experts_per_tok,
                 "1: the router's scores multiply the input of the experts");
  }
  for (const std::int64_t layer : moe.mlp_only_layers) {
    problems.range("mlp_only_layers", layer, 0, kMaxLayers);
  }
  check_groups(moe, problems);
}

void check_vision(const VisionConfig& vision, Problems& problems) {
  problems.range("vision_config.hidden_size", vision.hidden_size, 1, kMaxSize);
  problems.range("vision_config.intermediate_size", vision.intermediate_size, 1, kMaxSize);
  problems.range("vision_config.num_hidden_layers", vision.num_hidden_layers, 1, kMaxLayers);
  problems.range("vision_config.num_attention_heads", vision.num_attention_heads, 1, kMaxSize);
  problems.range("vision_config.image_size", vision.image_size, 1, kMaxImageSize);
  problems.range("vision_config.patch_size", vision.patch_size, 1, kMaxSize);
  problems.positive("vision_config.layer_norm_eps", vision.layer_norm_eps);
  if (vision.num_attention_heads > 0 && vision.hidden_size % vision.num_attention_heads != 0) {
    problems.add("vision_config.num_attention_heads", vision.num_attention_heads,
                 str("a divisor of hidden_size ", vision.hidden_size));
  }
  if (vision.patch_size > vision.image_size) {
    problems.add("vision_config.patch_size", vision.patch_size,
                 str("at most image_size ", vision.image_size));
  }
  const std::vector<vision::Size>& resolutions = vision.processor.grid_pinpoints;
  constexpr std::int64_t kMaxTiles = 64;
  for (const vision::Size& size : resolutions) {
    const bool fits =
        size.width >= vision.image_size && size.height >= vision.image_size &&
        size.width % vision.image_size == 0 && size.height % vision.image_size == 0 &&
        size.width / vision.image_size <= kMaxTiles &&
        size.height / vision.image_size <= kMaxTiles / (size.width / vision.image_size);
    if (!fits) {
      problems.add(
          "image_grid_pinpoints", str(size.height, " x ", size.width),
          str("multiples of image_size ", vision.image_size, ", at most ", kMaxTiles, " tiles"));
    }
  }
  // Hidden states are counted from the embedding (0) on, or from the last layer (-1) back.
  problems.range("vision_feature_layer", vision.feature_layer, -vision.num_hidden_layers - 1,
                 vision.num_hidden_layers);
}

void check_quantization(const QuantizationConfig& quantization, Problems& problems) {
  const auto& block = quantization.weight_block_size;
  if (!block.empty() && block.size() != 2) {
    problems.add("weight_block_size", str(block.size(), " numbers"), "two: rows and columns");
  }
  for (const std::int64_t size : block) {
    problems.range("weight_block_size", size, 1, kMaxSize);
  }
}

}  // namespace

bool ModelConfig::layer_has_experts(std::int64_t layer) const {
  if (!is_moe() || layer < moe.first_k_dense_replace) return false;
  if (moe.decoder_sparse_step > 1 && (layer + 1) % moe.decoder_sparse_step != 0) return false;
  return std::ranges::find(moe.mlp_only_layers, layer) == moe.mlp_only_layers.end();
}

bool ModelConfig::layer_has_window(std::int64_t layer) const {
  if (sliding_window == 0) return false;
  if (window_layers.empty()) return layer >= max_window_layers;
  return layer < static_cast<std::int64_t>(window_layers.size()) &&
         window_layers[static_cast<std::size_t>(layer)];
}

bool ModelConfig::layer_is_linear(std::int64_t layer) const {
  return layer < static_cast<std::int64_t>(delta_net.layers.size()) &&
         delta_net.layers[static_cast<std::size_t>(layer)];
}

bool ModelConfig::layer_has_indexer(std::int64_t layer) const {
  return layer >= static_cast<std::int64_t>(indexer.layers.size()) ||
         indexer.layers[static_cast<std::size_t>(layer)];
}

bool ModelConfig::layer_has_rope(std::int64_t layer) const {
  return layer >= static_cast<std::int64_t>(rope_layers.size()) ||
         rope_layers[static_cast<std::size_t>(layer)];
}

formats::ModelTokens ModelConfig::tokens() const {
  return {.vocab_size = vocab_size,
          .eos_token_ids = eos_token_ids,
          .bos_token_id = bos_token_id,
          .pad_token_id = pad_token_id};
}

void validate(const ModelConfig& config, const std::string& where) {
  Problems problems;
  check_sizes(config, problems);
  check_attention(config, problems);
  check_delta_net(config, problems);
  check_indexer(config, problems);
  check_compressed(config, problems);
  check_hyper(config.hyper, problems);
  check_rope(config.rope, problems);
  check_long_rope(config, problems);
  check_experts(config, problems);
  check_quantization(config.quantization, problems);
  check_generation(config, problems);
  if (config.vision) check_vision(*config.vision, problems);
  if (!problems.empty()) fail(where, ": ", problems.text());
}

}  // namespace graft::models
