// The interfaces of the roles. Matrices are row-major f32 on the operator's device, one row per
// token; `y` never overlaps `x`. forward() changes the KV cache and nothing else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/ops/activation.h"
#include "graft/ops/experts/expert_store.h"
#include "graft/ops/lora.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"
#include "graft/tensor/tensor.h"

namespace graft::ops {

class Operator {
 public:
  Operator() = default;
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  virtual ~Operator() = default;

  // Loads the weights (maps, packs or uploads them). Called before the first forward() and again
  // after unload(). Throws Error.
  virtual void load(WeightProvider& weights) = 0;
  virtual void unload() {}
};

class Embedding : public Operator {
 public:
  // y[t, hidden] = table[token_ids]
  virtual void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) = 0;
};

class Norm : public Operator {
 public:
  // y[rows, size] = norm(x); y may be x.
  virtual void forward(TensorView x, TensorView y, Pass& pass) = 0;
  // x += residual, then y = norm(x); y is not x. Returns y, also as int8 when that is `wanted` and
  // the device quantizes in the same kernel; int8 memory is allocated from the pass's workspace.
  virtual Activation forward_add(
      TensorView x, TensorView residual, TensorView y, ActivationFormat wanted, Pass& pass);
};

class Linear : public Operator {
 public:
  // y[rows, out] = x[rows, in] * W[out, in]^T + bias
  virtual void forward(const Activation& x, TensorView y, Pass& pass) = 0;
  // The format in which this layer multiplies that many rows.
  virtual ActivationFormat input_format(std::int64_t /*rows*/) const {
    return ActivationFormat::F32;
  }

  // forward(), then what the adapters of the rows add. Modules call this one.
  void apply(const Activation& x, TensorView y, Pass& pass);
  // The format of x for apply() where only one format is made: adapters multiply f32.
  ActivationFormat wanted_format(std::int64_t rows, const Pass& pass) const {
    return pass.lora == nullptr ? input_format(rows) : ActivationFormat::F32;
  }
  // Whether adapters change the result in this pass: callers that fuse layers add lora() then.
  bool is_adapted(const Pass& pass) const { return is_used(lora_, pass); }
  // Adapters of the layer as this operator's caller sees it; not owned, null: none.
  void set_lora(LoraLayer* lora) { lora_ = lora; }
  LoraLayer* lora() const { return lora_; }

 private:
  LoraLayer* lora_ = nullptr;
};

class Rope : public Operator {
 public:
  // Rotates, in place, the first rotary_dim of each of `num_heads` heads of size `head_dim` that
  // start `offset` values into every row of x[t, …]. Row r is at batch.positions[r].
  struct Heads {
    std::int64_t num_heads = 0;
    std::int64_t head_dim = 0;  // distance between heads
    std::int64_t offset = 0;
  };
  virtual void forward(TensorView x, const Heads& heads, Pass& pass) = 0;
};

// Paged storage of one layer. Position p of a sequence is in block block_table[p / block_tokens()],
// row p % block_tokens().
class KvCache : public Operator {
 public:
  // Positions [begin, end), columns [first_col, first_col + num_cols) of each, such as one head.
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t first_col = 0;
    std::int64_t num_cols = 0;
    std::int64_t follow = 0;  // positions after `end` to prefetch: they are read next
  };

  void load(WeightProvider&) override {}

  // (Re)creates storage for num_blocks blocks; contents are undefined. On the CPU, pages are
  // committed as blocks are written.
  virtual void allocate(std::int64_t num_blocks, std::int64_t block_tokens) = 0;
  virtual std::int64_t num_blocks() const = 0;
  virtual std::int64_t block_tokens() const = 0;
  virtual std::size_t bytes_per_block() const = 0;
  // Block 0 in the memory of the operator's device, the others after it; null: blocks are copied by
  // save_block() and load_block() only.
  virtual std::byte* blocks() const { return nullptr; }
  // Whole blocks: copied, saved, restored, and released (contents undefined, memory freed).
  virtual void copy_block(std::int64_t from, std::int64_t to) = 0;
  virtual void save_block(std::int64_t block, std::span<std::byte> out) const = 0;
  virtual void load_block(std::int64_t block, std::span<const std::byte> in) = 0;
  virtual void release_blocks(std::int64_t first, std::int64_t count) = 0;
  // The layout of its bytes ("f16 512+64"): only caches of equal form can exchange blocks.
  virtual std::string form() const = 0;
  // Stores the rows of this pass at their positions. value is empty (no data) for MLA.
  virtual void write(TensorView key, TensorView value, Pass& pass) = 0;
  // Part of a sequence's rows as floats: out[end - begin, num_cols].
  virtual void read_keys(const SequenceSlice& sequence, const Part& part, float* out) const = 0;
  virtual void read_values(const SequenceSlice& sequence, const Part& part, float* out) const = 0;
};

// The recurrent states of one layer: a slot per sequence, which a pass replaces. A pass that starts
// at position 0 ignores what its slot holds, so slots are not cleared.
class StateCache : public Operator {
 public:
  void load(WeightProvider&) override {}

  // (Re)creates storage; contents are undefined. On the CPU, pages are committed as slots are
  // written.
  virtual void allocate(std::int64_t num_slots) = 0;
  virtual std::int64_t num_slots() const = 0;
  virtual std::size_t bytes_per_slot() const = 0;
  // Whole slots: copied (in order with the passes), saved, restored, and released (contents
  // undefined, memory freed).
  virtual void copy_slot(std::int64_t from, std::int64_t to) = 0;
  virtual void save_slot(std::int64_t slot, std::span<std::byte> out) const = 0;
  virtual void load_slot(std::int64_t slot, std::span<const std::byte> in) = 0;
  virtual void release_slots(std::int64_t first, std::int64_t count) = 0;
  // The layout of its bytes: only caches of equal form can exchange slots.
  virtual std::string form() const = 0;
  // [num_slots, values] f32 on the operator's device.
  virtual TensorView slots() const = 0;
};

class Attention : public Operator {
 public:
  // y[t, hidden] = attention(x[t, hidden]); writes this pass's keys and values to the cache first,
  // or replaces the recurrent states.
  virtual void forward(const Activation& x, TensorView y, Pass& pass) = 0;
  virtual ActivationFormat input_format(std::int64_t /*rows*/) const {
    return ActivationFormat::F32;
  }
  // Adapters of a kv_b_proj whose weights the attention holds: `keys` from the query of a head to
  // the latents, `values` from the latents to its values. Not owned. False: not supported.
  virtual bool set_kv_b_lora(LoraLayer* /*keys*/, LoraLayer* /*values*/) { return false; }
};

// Selects the positions that each token attends to (sparse attention).
class Indexer : public Operator {
 public:
  // Stores the index keys of x[t, hidden], then selected[t, top_k] i32: the positions with the
  // highest scores, ascending; of equal scores the earlier position. -1 after the last one, when
  // the context has fewer than top_k. q_latents[t, q_lora_rank]: the input of the attention's
  // q_b_proj.
  virtual void forward(const Activation& x,
                       TensorView q_latents,
                       TensorView selected,
                       Pass& pass) = 0;
};

// Makes entries of several tokens each (CompressorParams) and keeps them in its cache: the row of
// the token that completes an entry holds it.
class Compressor : public Operator {
 public:
  // Adds x[t, hidden]. With an indexer, selected[t, top_k] are the entries for each token as
  // Indexer::forward() returns them, from q_latents[t, q_lora_rank]; without, `selected` is empty.
  virtual void forward(const Activation& x,
                       TensorView q_latents,
                       TensorView selected,
                       Pass& pass) = 0;
};

// Reads and writes the streams [t, mult * hidden] of hyper-connections.
class HyperConnection : public Operator {
 public:
  virtual std::int64_t mult() const = 0;
  // Starts the streams: copies of x[t, hidden].
  virtual void replicate(TensorView x, TensorView streams, Pass& pass) = 0;
  // y[t, hidden] = the weighted sum of the streams. mix[t, mult + mult * mult] is the argument of
  // the following add(); empty for the head.
  virtual void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) = 0;
  // Mixes the streams and adds y[t, hidden] to each with its weight.
  virtual void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) = 0;
};

struct Routing {
  TensorView expert_ids;  // [t, top_k] i32
  TensorView weights;     // [t, top_k] f32
};

class Router : public Operator {
 public:
  virtual void forward(TensorView x, Routing out, Pass& pass) = 0;
  virtual std::int64_t top_k() const = 0;  // experts per token
};

// What the routers have chosen so far. A pair is one (token, expert) entry of a routing.
struct ExpertUsage {
  std::vector<std::uint64_t> pairs = {};    // by expert; empty: not counted
  std::vector<std::int64_t> resident = {};  // experts with a copy in GPU memory, ascending
  std::uint64_t resident_pairs = 0;         // of `pairs`, computed from these copies
  std::uint64_t streamed_bytes = 0;         // copied to the GPU for prefill passes
};

class Experts : public Operator {
 public:
  // y[t, hidden] = sum over the chosen experts of weight * expert(x)
  virtual void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) = 0;
  virtual ActivationFormat input_format(std::int64_t /*rows*/) const {
    return ActivationFormat::F32;
  }

  // The same in two steps with equal arguments, so that experts on another device run while the
  // caller's device computes what the caller launches in between.
  virtual void begin(const Activation& /*x*/, Routing /*routing*/, Pass& /*pass*/) {}
  virtual void end(const Activation& x, Routing routing, TensorView y, Pass& pass) {
    forward(x, routing, y, pass);
  }

  // The weights in host memory, for the operator on a GPU that computes with them; empty: not
  // offered.
  virtual ExpertStore host_store() const { return {}; }

  // On the host before every pass, replayed ones included: lets the copies in GPU memory follow the
  // routing.
  virtual void before_pass(Pass& /*pass*/) {}
  virtual ExpertUsage usage() const { return {}; }
  // Forgets the pairs so far, which say nothing about later ones (warm-up).
  virtual void reset_usage() {}
  // The pairs by expert of an earlier run, which select the first copies in GPU memory. Call before
  // load().
  virtual void expect_pairs(const std::vector<std::uint64_t>& /*pairs*/) {}
};

// The features of images. Works on whole images, never on the tokens of a pass.
class VisionTower : public Operator {
 public:
  // patches[tiles * tokens, 3 * patch_size^2]: for each tile a row of zeros, which becomes the
  // class token, then its patches by row (channels, rows, columns). To features[tiles *
  // num_features, hidden_size], see VisionTowerParams.
  virtual void forward(TensorView patches, TensorView features, Pass& pass) = 0;
};

// From the features of images to rows that replace embeddings.
class Projector : public Operator {
 public:
  virtual void forward(TensorView features, TensorView y, Pass& pass) = 0;
  // The embedding that ends the rows of tiled images; empty: there is none.
  virtual std::span<const float> newline() const = 0;
};

// A feed-forward block: dense MLP, or router + experts + shared experts.
class Mlp : public Operator {
 public:
  virtual void forward(const Activation& x, TensorView y, Pass& pass) = 0;
  virtual ActivationFormat input_format(std::int64_t /*rows*/) const {
    return ActivationFormat::F32;
  }
};

}  // namespace graft::ops
