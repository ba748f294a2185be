// DeepSeek-V3.2 and GLM-5: DeepSeek-V3 with sparse attention. An indexer selects the index_topk
// positions that a token attends to, in every layer or, in later models of GLM, for several layers.
// DeepSeek's indexer rotates the halves of its heads, GLM's neighbouring pairs.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/base/text/str.h"
#include "graft/models/config/indexer_layers.h"
#include "graft/models/families/deepseek/deepseek.h"
#include "graft/models/families/glm4.h"

namespace graft::models {
namespace {

using formats::Fields;
using formats::GgufFields;
using formats::GgufKeyWriter;

constexpr HfDefaults kV32Defaults = [] {
  HfDefaults defaults = kDeepseekV3Defaults;
  defaults.max_position_embeddings = 163840;
  return defaults;
}();

constexpr HfDefaults kGlm5Defaults = {.vocab_size = 154880,
                                      .hidden_size = 6144,
                                      .intermediate_size = 12288,
                                      .num_hidden_layers = 78,
                                      .num_attention_heads = 64,
                                      .num_key_value_heads = 64,
                                      .max_position_embeddings = 202752,
                                      .rms_norm_eps = 1e-5};

constexpr HfMoeDefaults kGlm5Moe = {.num_experts = 256,
                                    .num_experts_per_tok = 8,
                                    .moe_intermediate_size = 2048,
                                    .num_shared_experts = 1,
                                    .first_k_dense_replace = 3,
                                    .norm_topk_prob = true,
                                    .routed_scaling_factor = 2.5,
                                    .scoring_func = RouterScoring::Sigmoid,
                                    .topk_method = RouterMethod::NoauxTc};

// Latent sizes of GLM-5 that config.json may leave out.
struct LatentDefaults {
  std::int64_t q_lora_rank;
  std::int64_t qk_nope_head_dim;
  std::int64_t v_head_dim;
  std::int64_t index_heads;
};
constexpr LatentDefaults kV32Latent = {1536, 128, 128, 64};
constexpr LatentDefaults kGlm5Latent = {2048, 192, 256, 32};

// "mlp_layer_types": dense layers first, then layers with experts.
void read_dense_layers(const Fields& fields, ModelConfig& config) {
  if (!fields.has("mlp_layer_types")) return;
  const std::vector<std::string> types = fields.texts("mlp_layer_types");
  const auto first_sparse = std::ranges::find(types, "sparse");
  const bool is_known = std::ranges::all_of(types.begin(), first_sparse,
                                            [](const auto& type) { return type == "dense"; }) &&
                        std::ranges::all_of(first_sparse, types.end(),
                                            [](const auto& type) { return type == "sparse"; });
  if (!is_known || static_cast<std::int64_t>(types.size()) != config.num_hidden_layers) {
    return fields.problem("mlp_layer_types", *fields.find("mlp_layer_types"),
                          str(config.num_hidden_layers, " times dense or sparse, dense first"));
  }
  config.moe.first_k_dense_replace = first_sparse - types.begin();
}

void read_layer_types(const Fields& fields) {
  for (const std::string& type : fields.texts("layer_types")) {
    if (type != "deepseek_sparse_attention")
      return fields.problem("layer_types", type, "deepseek_sparse_attention in every layer");
  }
}

void read_sparse(const Fields& fields, const LatentDefaults& latent, ModelConfig& config) {
  MlaConfig& mla = config.mla;
  mla.q_lora_rank = fields.integer("q_lora_rank", latent.q_lora_rank, 1);
  mla.qk_nope_head_dim = fields.integer("qk_nope_head_dim", latent.qk_nope_head_dim, 1);
  mla.v_head_dim = fields.integer("v_head_dim", latent.v_head_dim, 1);
  config.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  config.rope_interleaved = true;
  config.indexer.num_heads = fields.integer("index_n_heads", latent.index_heads, 1);
  config.indexer.head_dim = fields.integer("index_head_dim", 128, 1);
  config.indexer.top_k = fields.integer("index_topk", 2048, 1);
  if (fields.boolean("mlp_bias", false)) fields.problem("mlp_bias", true, "false");
  read_dense_layers(fields, config);
  read_layer_types(fields);
  read_indexer_layers(fields, config);
}

void read_v32(const Fields& fields, ModelConfig& config) {
  read_deepseek(fields, kV32Defaults, kDeepseekV3Moe, config);
  read_sparse(fields, kV32Latent, config);
  if (!config.indexer.layers.empty())
    fields.problem("indexer_types", "shared", "full in every layer of this family");
}

void read_glm5(const Fields& fields, ModelConfig& config) {
  read_deepseek(fields, kGlm5Defaults, kGlm5Moe, config);
  read_sparse(fields, kGlm5Latent, config);
  config.indexer.rope_interleaved = true;
}

void read_indexer_gguf(const GgufFields& gguf, ModelConfig& config) {
  config.indexer.num_heads = gguf.required("attention.indexer.head_count");
  config.indexer.head_dim = gguf.required("attention.indexer.key_length");
  config.indexer.top_k = gguf.required("attention.indexer.top_k");
}

void read_glm5_gguf(const GgufFields& gguf, ModelConfig& config) {
  read_indexer_gguf(gguf, config);
  read_gguf_indexer_layers(gguf, config);
  config.indexer.rope_interleaved = true;
}

void write_indexer_gguf(const ModelConfig& config, GgufKeyWriter& out) {
  out.integer("attention.indexer.head_count", config.indexer.num_heads);
  out.integer("attention.indexer.key_length", config.indexer.head_dim);
  out.integer("attention.indexer.top_k", config.indexer.top_k);
}

void write_glm5_gguf(const ModelConfig& config, GgufKeyWriter& out) {
  write_indexer_gguf(config, out);
  write_gguf_indexer_layers(config, out);
}

// clang-format off
constexpr std::array kIndexer = {
    TensorRow{"self_attn.indexer.wq_b.weight",         "indexer.attn_q_b.weight"},
    TensorRow{"self_attn.indexer.wk.weight",           "indexer.attn_k.weight"},
    TensorRow{"self_attn.indexer.k_norm.weight",       "indexer.k_norm.weight"},
    TensorRow{"self_attn.indexer.k_norm.bias",         "indexer.k_norm.bias"},
    TensorRow{"self_attn.indexer.weights_proj.weight", "indexer.proj.weight"},
};
// clang-format on

constexpr std::array kV32PreTokenizers = {
    formats::PreTokenizerName{"deepseek-v3", "deepseek-v3"},
};

}  // namespace

extern const Family kDeepseekV32 = {
    .model_types = {"deepseek_v32"},
    .hf_class = "DeepseekV32ForCausalLM",
    .class_prefix = "DeepseekV32",
    .gguf = {.architecture = "deepseek32",
             .mla = true,
             .rope_interleaved = true,
             .scoring = RouterScoring::Sigmoid,
             .method = RouterMethod::NoauxTc,
             .shared = GgufTraits::Shared::Count,
             .read = read_indexer_gguf,
             .write = write_indexer_gguf},
    .read_hf = read_v32,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMla, rows::kMlp,
                rows::kExperts, rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn,
                kIndexer},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kV32PreTokenizers,
    .chat = {.builtin_template = "deepseek-v3.2", .tool_calls = formats::ToolCallFormat::Dsml},
    .build = build_deepseek,
};

extern const Family kGlmMoeDsa = {
    .model_types = {"glm_moe_dsa"},
    .hf_class = "GlmMoeDsaForCausalLM",
    .class_prefix = "GlmMoeDsa",
    .gguf = {.architecture = "glm-dsa",
             .mla = true,
             .rope_interleaved = true,
             .scoring = RouterScoring::Sigmoid,
             .method = RouterMethod::NoauxTc,
             .shared = GgufTraits::Shared::Count,
             .read = read_glm5_gguf,
             .write = write_glm5_gguf},
    .read_hf = read_glm5,
    .tensors = {rows::kNorms, rows::kQueryKey, rows::kAttention, rows::kMla, rows::kMlp,
                rows::kExperts, rows::kRouterAndFusedExperts, rows::kSharedExperts, rows::kNextn,
                kIndexer},
    .fused = rows::kFusedExperts,
    .pre_tokenizers = kGlmPreTokenizers,
    .chat = {.builtin_template = "glm",
             .tool_calls = formats::ToolCallFormat::Hermes,
             .prefix = kGlmPrefix},
    .build = build_deepseek,
};

}  // namespace graft::models
