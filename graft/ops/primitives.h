// What a device offers to the modules of modules/: single primitives, and fused ones with a default
// that composes the single ones. A device overrides those it has kernels for.
//
// A fused primitive reads the weights of a child directly only when the child is native: an
// operator of the same device that its registration marks as such (OperatorInfo::is_native). Any
// other child, one from a plugin or on another device, is called; only the fusion it was part of is
// lost. A device that gains or loses a fused kernel changes its list of fusions too (fusions.h).

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

// Heads inside the rows of x: `num_heads` of `size` values, `distance` apart, from column `offset`.
struct HeadSpan {
  TensorView x;  // [rows, …]
  std::int64_t offset = 0;
  std::int64_t num_heads = 1;
  std::int64_t size = 0;
  std::int64_t distance = 0;
  Child<Norm> norm = {};        // over each head
  bool rotates = false;         // by HeadStore::rope, after the norm
  std::int64_t cache_col = -1;  // column in the cache's row; -1: not stored
};

struct HeadStore {
  std::span<const HeadSpan> spans;
  Child<Rope> rope;  // none: positions are not encoded
  Child<KvCache> cache;
  TensorView key;  // what KvCache::write() takes; consists of the spans with a cache_col
  TensorView value;
};

// Softmax attention of the queries of a pass over one layer's cache.
class AttentionCore {
 public:
  AttentionCore() = default;
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;
  virtual ~AttentionCore() = default;

  virtual void load(WeightProvider& /*weights*/) {}
  virtual void unload() {}
  // out[t, heads * value_dim] for q[t, heads * key_dim]
  virtual void forward(TensorView q, TensorView out, Pass& pass) = 0;
};

class Primitives {
 public:
  Primitives() = default;
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;
  virtual ~Primitives() = default;

  // gate = silu(gate) * up
  virtual void silu_mul(TensorView gate, TensorView up, Pass& pass) = 0;
  // y += sigmoid(gates[row]) * x; without gates (no data) y += x
  virtual void add_gated(TensorView y, TensorView x, TensorView gates, Pass& pass) = 0;
  // The first columns of each row, as many as the narrower matrix has.
  virtual void copy_columns(TensorView from, TensorView to, Pass& pass) = 0;
  // Grouped-query attention and multi-head latent attention of the module `context` describes.
  virtual std::unique_ptr<AttentionCore> make_attention(const BuildContext& context) = 0;
  virtual std::unique_ptr<AttentionCore> make_mla_attention(const BuildContext& context) = 0;

  // The fusions that the overrides below and the device's operators have kernels for: what a
  // replaced child may cost. Plans report them.
  virtual std::span<const Fusion> fusions() const { return {}; }

  // Fused.
  // y of each call, all with the same x.
  virtual void linear_group(const Activation& x, std::span<const LinearCall> calls, Pass& pass);
  // silu(gate(x)) * up(x), as int8 when that is `wanted` and the device has a kernel for it. May
  // overwrite both results.
  virtual Activation gate_up(const Activation& x,
                             const LinearCall& gate,
                             const LinearCall& up,
                             ActivationFormat wanted,
                             Pass& pass);
  // Head norms, rotary embedding and the write to the cache.
  virtual void norm_rope_store(const HeadStore& heads, Pass& pass);
};

}  // namespace graft::ops
