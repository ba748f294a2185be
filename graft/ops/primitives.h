// The primitives of a device that the modules of ops/modules are composed of: single ones, and
// fused ones whose default implementation composes the single ones. A device overrides those it has
// kernels for.
//
// A fused primitive reads the weights of a child directly only when the child is native: an
// operator of the same device with OperatorInfo::is_native. For any other child (from a plugin or
// on another device) it calls forward(); only the fusion with that child is lost. A device that
// gains or loses a fused kernel must update its list of fusions (fusions.h).

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "graft/ops/fusions.h"
#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// One of several linear layers with the same input.
struct LinearCall {
  Child<Linear> linear;
  TensorView y;  // [rows, out]
};

// Heads inside the rows of x: head h has the `size` columns from offset + h * head_stride on.
struct HeadSpan {
  TensorView x;  // [rows, cols]
  std::int64_t offset = 0;
  std::int64_t num_heads = 1;
  std::int64_t size = 0;
  std::int64_t head_stride = 0;
  Child<Norm> norm = {};         // applied to each head; empty: none
  bool rotates = false;          // HeadStore::rope is applied, after the norm …
  std::int64_t rotate_from = 0;  // … to the values from here on
  std::int64_t cache_col = -1;   // first column in the row of the KV cache; -1: not stored
};

struct HeadStore {
  std::span<const HeadSpan> spans;
  Child<Rope> rope;  // empty: no rotary embedding
  Child<KvCache> cache;
  // The arguments of KvCache::write(): views of the spans that have a cache_col.
  TensorView key;
  TensorView value;
};

// Softmax attention of the queries of a pass over the KV cache of one layer.
class AttentionCore {
 public:
  AttentionCore() = default;
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;
  virtual ~AttentionCore() = default;

  virtual void load(WeightProvider& /*weights*/) {}
  virtual void unload() {}
  // See Attention::set_kv_b_lora().
  virtual bool set_kv_b_lora(LoraLayer* /*keys*/, LoraLayer* /*values*/) { return false; }
  // q[tokens, heads * key_dim] to out[tokens, heads * value_dim].
  virtual void forward(TensorView q, TensorView out, Pass& pass) = 0;
  // The same over the positions selected[tokens, top_k] of an Indexer. For latent attention only.
  virtual void forward_selected(TensorView q, TensorView selected, TensorView out, Pass& pass);
};

// Scores and selection of an Indexer over its cache of index keys.
class IndexerCore {
 public:
  IndexerCore() = default;
  IndexerCore(const IndexerCore&) = delete;
  IndexerCore& operator=(const IndexerCore&) = delete;
  virtual ~IndexerCore() = default;

  // Loads the layer norm of the keys.
  virtual void load(WeightProvider& weights) = 0;
  virtual void unload() = 0;
  // Layer norm of keys[tokens, head_dim], in place.
  virtual void norm_keys(TensorView keys, Pass& pass) = 0;
  // selected of Indexer::forward() for q[tokens, heads * head_dim] and weights[tokens, heads]. The
  // keys of the pass are already in the cache.
  virtual void select(TensorView q, TensorView weights, TensorView selected, Pass& pass) = 0;
};

// The entries of a compressor. Its cache of windows ("window_cache") has a row per token: the
// projection as key, the logits of the softmax as value.
class CompressorCore {
 public:
  CompressorCore() = default;
  CompressorCore(const CompressorCore&) = delete;
  CompressorCore& operator=(const CompressorCore&) = delete;
  virtual ~CompressorCore() = default;

  // Loads the biases of the logits, a row per token of a window.
  virtual void load(WeightProvider& weights) = 0;
  virtual void unload() = 0;
  // Writes projection[tokens, row_size] and logits[tokens, row_size], plus the bias of each token's
  // place in its window, to the cache of windows. May overwrite the logits.
  virtual void store(TensorView projection, TensorView logits, Pass& pass) = 0;
  // Writes the entries, normed and rotated, to the cache of entries ("kv_cache"): rows of tokens
  // that complete no window are 0. The rows of the pass are already in the cache of windows.
  virtual void compress(Pass& pass) = 0;
};

// The inputs of the gated delta rule, a row per token.
struct DeltaNetInput {
  TensorView qkv;  // [tokens, conv_channels]: heads of q, of k, of v
  TensorView z;    // [tokens, value_size]: the gate of the output
  TensorView b;    // [tokens, value heads]
  TensorView a;    // [tokens, value heads]
};

// The gated delta rule of one layer on the states of the sequences of a pass: convolution, delta
// rule, gated norm.
class DeltaNetCore {
 public:
  DeltaNetCore() = default;
  DeltaNetCore(const DeltaNetCore&) = delete;
  DeltaNetCore& operator=(const DeltaNetCore&) = delete;
  virtual ~DeltaNetCore() = default;

  virtual void load(WeightProvider& weights) = 0;
  virtual void unload() = 0;
  // out[tokens, value_size]. May overwrite the inputs.
  virtual void forward(const DeltaNetInput& in, TensorView out, Pass& pass) = 0;
};

class Primitives {
 public:
  Primitives() = default;
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;
  virtual ~Primitives() = default;

  // gate = silu(gate) * up
  virtual void silu_mul(TensorView gate, TensorView up, Pass& pass) = 0;
  // gate = gelu(gate) * up, gelu in its tanh approximation
  virtual void gelu_mul(TensorView gate, TensorView up, Pass& pass) = 0;
  // y += sigmoid(gates[row]) * x; y += x when gates.data is null
  virtual void add_gated(TensorView y, TensorView x, TensorView gates, Pass& pass) = 0;
  // Copies the first min(from.cols(), to.cols()) columns of each row.
  virtual void copy_columns(TensorView from, TensorView to, Pass& pass) = 0;
  // y *= sigmoid(the last y.cols() columns of gates), row by row
  virtual void mul_sigmoid(TensorView y, TensorView gates, Pass& pass) = 0;
  // Grouped-query attention, multi-head latent attention and the gated delta rule of the module
  // `context` describes.
  // y = factors[row] * x; then all factors are 1.
  virtual void scale_rows(TensorView x, TensorView factors, TensorView y, Pass& pass) = 0;
  // Multiplies the queries of each token by the factor of its position (AttentionParams).
  virtual void scale_queries(TensorView q, const AttentionParams& params, Pass& pass) = 0;
  virtual std::unique_ptr<IndexerCore> make_indexer(const BuildContext& context) = 0;
  // Grouped-query attention and multi-head latent attention of the module `context` describes.
  virtual std::unique_ptr<AttentionCore> make_attention(const BuildContext& context) = 0;
  virtual std::unique_ptr<AttentionCore> make_mla_attention(const BuildContext& context) = 0;
  virtual std::unique_ptr<DeltaNetCore> make_delta_net(const BuildContext& context) = 0;
  // Compressed attention, its compressors, and the limited gate of an MLP. Devices without them
  // have no operators that call these.
  virtual std::unique_ptr<AttentionCore> make_compressed_attention(const BuildContext& context);
  virtual std::unique_ptr<CompressorCore> make_compressor(const CompressorParams& params,
                                                          const BuildContext& context);
  // gate = silu(min(gate, limit)) * up, up clamped to [-limit, limit]; may overwrite up
  virtual void limited_silu_mul(TensorView gate, TensorView up, float limit, Pass& pass);

  // Adapters of a layer, in the memory of the device.
  virtual std::unique_ptr<LoraLayer> make_lora(Device device, const LoraSize& size) = 0;

  // The fusions that the overrides below and the device's operators have kernels for. Plans report
  // those that are lost because a rule replaces a child.
  virtual std::span<const Fusion> fusions() const { return {}; }

  // Fused primitives.

  // y = linear(x) for each call; all calls have the same x.
  virtual void linear_group(const Activation& x, std::span<const LinearCall> calls, Pass& pass);
  // Returns function(gate(x)) * up(x) in the format `wanted` when the device has a kernel for it,
  // else as f32. May overwrite gate.y and up.y.
  virtual Activation gate_up(const Activation& x,
                             const LinearCall& gate,
                             const LinearCall& up,
                             MlpParams::Gate function,
                             ActivationFormat wanted,
                             Pass& pass);
  // Head norms, rotary embedding and the write to the KV cache.
  virtual void norm_rope_store(const HeadStore& heads, Pass& pass);
};

}  // namespace graft::ops
