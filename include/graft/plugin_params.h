// The configuration values of a module, by role, free of any checkpoint format.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace graft::plugin {

struct NoParams {};

struct EmbeddingParams {
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  float scale = 1.0F;  // of the rows
};

struct NormParams {
  std::int64_t size = 0;
  double eps = 1e-6;
  bool has_weight = true;  // false: every factor is 1 (the L2 norm of Llama 4)
};

struct LinearParams {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = false;
  // The input has `groups` parts of in_features values; part g gives the outputs
  // [g, g + 1) * out_features / groups.
  std::int64_t groups = 1;
};

// LongRoPE: positions of sequences that use RopeParams::long_inv_freq have this bit set.
inline constexpr std::int32_t kLongRopeFlag = std::int32_t{1} << 30;

// Rotary embedding: the angle of pair i at position p is p * inv_freq[i]; rotated values are
// multiplied by `magnitude` (YaRN). Dynamic NTK recomputes inv_freq from the context length.
struct RopeParams {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;     // pairs (2i, 2i + 1), else (i, i + rotary_dim / 2)
  std::vector<float> inv_freq;  // [rotary_dim / 2]
  float magnitude = 1.0F;
  bool dynamic = false;  // dynamic NTK: the three numbers below
  double theta = 10000.0;
  double factor = 1.0;
  std::int64_t max_position_embeddings = 0;
  std::vector<float> long_inv_freq;  // LongRoPE: of long sequences (kLongRopeFlag); empty: none
};

// Grouped-query attention.
struct AttentionParams {
  std::int64_t num_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t sliding_window = 0;  // 0: none; else a token sees this many, itself included
  float scale = 1.0F;               // of the scores
  bool qk_norm = false;
  bool qk_norm_all_heads = false;  // with qk_norm: one norm over the whole row of q and of k
  std::int64_t chunk = 0;          // 0: none; else a token sees its own chunk of this many
  // Queries at position p are multiplied by 1 + temperature_scale * log(1 + floor((p + 1) /
  // temperature_floor)); 0: they are not.
  std::int64_t temperature_floor = 0;
  float temperature_scale = 0.0F;
  // A learned logit per head ("sinks") joins the softmax's denominator and attends to no key.
  bool sinks = false;
  // q_proj has a gate after the query of each head; the head's output is multiplied by its sigmoid.
  bool output_gate = false;
};

// Multi-head latent attention.
struct MlaParams {
  std::int64_t num_heads = 0;
  std::int64_t q_lora_rank = 0;  // 0: q_proj is one matrix
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;
  std::int64_t v_head_dim = 0;
  float scale = 1.0F;
  // The child `indexer` selects this many positions for each token; without that child, the tokens
  // attend to those of the last layer that has one. 0: all positions, there is no indexer.
  std::int64_t index_top_k = 0;
};

// Attention with one key per token that is also the value and that all heads share: over a sliding
// window, and over the entries of the child `compressor`, each made from several tokens.
struct CompressedAttentionParams {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dim = 0;  // the last rope_dim values of a head are rotated
  std::int64_t q_lora_rank = 0;
  std::int64_t sliding_window = 0;
  std::int64_t output_groups = 1;  // of heads, in the first output projection
  std::int64_t output_lora_rank = 0;
  float scale = 1.0F;              // of the scores
  std::int64_t compress_rate = 0;  // tokens per entry; 0: there is no compressor
  std::int64_t index_top_k = 0;    // entries that a token attends to at most; 0: all
};

// Every `rate` tokens become one entry: the sum of their projections, weighted by a softmax over
// the tokens for each value. With `overlaps`, projections have two halves: an entry is made from
// the first halves of the `rate` tokens before and the second halves of its own.
struct CompressorParams {
  std::int64_t hidden_size = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dim = 0;  // the last rope_dim values of an entry are rotated
  std::int64_t rate = 1;
  bool overlaps = false;
  // The child `indexer` selects this many entries for each token; 0: there is no indexer.
  std::int64_t index_top_k = 0;

  std::int64_t row_size() const { return overlaps ? 2 * head_dim : head_dim; }
};

// Hyper-connections: the hidden states are `mult` streams of hidden_size values. A block reads
// their weighted sum and writes to all of them.
struct HyperConnectionParams {
  std::int64_t hidden_size = 0;
  std::int64_t mult = 0;
  std::int64_t sinkhorn_iters = 0;
  double eps = 1e-6;
  double norm_eps = 1e-6;
  bool is_head = false;  // after the last layer: it only reads
};

// The lightning indexer of sparse attention. Its score of a position, with the indexer's own
// queries q, key k and head weights w: scale * sum over heads of w * max(0, q . k).
struct IndexerParams {
  std::int64_t hidden_size = 0;
  std::int64_t q_lora_rank = 0;  // size of the input of wq_b
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t top_k = 0;  // positions selected for each token
  float scale = 1.0F;
  double key_norm_eps = 1e-6;  // of the layer norm of the keys, which has a weight and a bias
  // Tokens per key. 1: a key and a position per token. Above: a key per entry of a compressor
  // (CompressorParams, which overlaps); the indexer selects entries, and the keys have no layer
  // norm.
  std::int64_t compress_rate = 1;
  std::int64_t rope_dim = 0;  // with compress_rate: the last rope_dim values are rotated
};

// Gated delta rule: attention with a recurrent state instead of a KV cache. A causal convolution
// over the last conv_kernel tokens filters the channels of q, k and v; each value head then updates
// its state S[key_head_dim, value_head_dim] with decay * S + k * beta * (v - (decay * S)^T k).
struct DeltaNetParams {
  std::int64_t num_key_heads = 0;
  std::int64_t num_value_heads = 0;  // a multiple of num_key_heads
  std::int64_t key_head_dim = 0;
  std::int64_t value_head_dim = 0;
  std::int64_t conv_kernel = 0;
  double eps = 1e-6;  // of the output's norm
  // Value head h reads key head h % num_key_heads; else h / (num_value_heads / num_key_heads).
  bool tiled_value_heads = false;

  std::int64_t key_size() const { return num_key_heads * key_head_dim; }
  std::int64_t value_size() const { return num_value_heads * value_head_dim; }
  std::int64_t conv_channels() const { return 2 * key_size() + value_size(); }
  std::int64_t key_head(std::int64_t value_head) const {
    return tiled_value_heads ? value_head % num_key_heads
                             : value_head / (num_value_heads / num_key_heads);
  }
};

// The state of one sequence and layer: recurrent_size values, then the conv_size last inputs of the
// convolution; all f32.
struct StateCacheParams {
  std::int64_t recurrent_size = 0;
  std::int64_t conv_size = 0;
};

// One row per token and layer: `key_size` values, then `value_size` (0 for MLA, whose values are
// the leading part of the keys).
struct KvCacheParams {
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;
  std::int64_t head_size = 0;  // what is read begins and ends at multiples of it; 0: whole rows
  std::int64_t max_reads = 0;  // rows that a token reads at most; 0: all of its context
};

struct MlpParams {
  // The function of the gate. GeluTanh: GELU in its tanh approximation.
  enum class Gate : std::uint8_t { Silu, GeluTanh };

  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  Gate gate = Gate::Silu;
  float limit = 0.0F;  // of gate from above and of up on both sides, before the product; 0: none
};

struct RouterParams {
  // From logits to the scores of the experts.
  enum class Scoring : std::uint8_t { Softmax, Sigmoid, SqrtSoftplus };
  // Greedy: the top-k experts. GroupLimitedGreedy: the top-k of the best groups; the score of a
  // group is its max. NoauxTc: the same on scores plus a correction bias; the score of a group is
  // the sum of its two largest.
  enum class Method : std::uint8_t { Greedy, GroupLimitedGreedy, NoauxTc };

  std::int64_t hidden_size = 0;
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  Scoring scoring = Scoring::Softmax;
  Method method = Method::Greedy;
  std::int64_t num_groups = 1;
  std::int64_t top_k_groups = 1;
  bool normalize = false;
  float scaling_factor = 1.0F;
  bool bias = false;  // added to the logits
  // Above 0: the table `tid2eid` has the experts of every token of the vocabulary; the scores only
  // weight them.
  std::int64_t hash_vocab_size = 0;
};

struct ExpertsParams {
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  bool bias = false;  // on all three projections
  // 0: silu(gate) * up. Else GPT-OSS's activation: g * sigmoid(1.702 g) * (u + 1) with
  // g = min(gate, limit) and u = up clamped to [-limit, limit].
  float swiglu_limit = 0.0F;
  bool limits_silu = false;  // with swiglu_limit: silu(g) * u of the same g and u
  // Of a MoE block: the input of an expert is multiplied by the routing weight, not its output.
  // top_k is 1. The block does it and calls its experts with weights of 1.
  bool scales_input = false;
};

// A CLIP vision tower up to the layer whose output is used.
struct VisionTowerParams {
  // Of the MLPs. QuickGelu: x * sigmoid(1.702 x). GeluTanh: GELU in its tanh approximation.
  enum class Activation : std::uint8_t { QuickGelu, Gelu, GeluTanh };

  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_layers = 0;  // that are computed
  std::int64_t num_heads = 0;
  std::int64_t image_size = 0;
  std::int64_t patch_size = 0;
  double eps = 1e-5;
  Activation activation = Activation::QuickGelu;
  bool keeps_class_token = false;  // in the features

  std::int64_t num_patches() const {
    const std::int64_t side = image_size / patch_size;
    return side * side;
  }
  std::int64_t num_tokens() const { return num_patches() + 1; }  // with the class token
  std::int64_t num_features() const { return keeps_class_token ? num_tokens() : num_patches(); }
};

// From the features of a vision tower to embeddings of the text model: linear, activation, linear.
struct ProjectorParams {
  std::int64_t in_features = 0;
  std::int64_t hidden_size = 0;
  bool bias = true;
  VisionTowerParams::Activation activation = VisionTowerParams::Activation::Gelu;
  bool has_newline = false;  // an embedding that ends the rows of tiled images
};

using Params = std::variant<NoParams,
                            EmbeddingParams,
                            NormParams,
                            LinearParams,
                            RopeParams,
                            AttentionParams,
                            MlaParams,
                            DeltaNetParams,
                            CompressedAttentionParams,
                            CompressorParams,
                            HyperConnectionParams,
                            IndexerParams,
                            KvCacheParams,
                            StateCacheParams,
                            MlpParams,
                            RouterParams,
                            ExpertsParams,
                            VisionTowerParams,
                            ProjectorParams>;

}  // namespace graft::plugin
