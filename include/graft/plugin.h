// Operators from a shared library that is built apart from graft and selected by rule files.
//
// A plugin implements a role (norm, linear, attention, …) for the CPU and exports one variable:
//
//   void add_operators(graft::plugin::Registry& registry) { registry.add({.name = …}); }
//   const graft::plugin::Plugin graft_plugin = {.add_operators = add_operators};
//
// graft compares the version of these headers before it calls anything: rebuild a plugin for every
// version. The roles model, layer, indexer and kv_cache are not offered: graft schedules the layers
// and owns the caches; an attention operator reads and writes it through KvCache.
//
// Classes marked "of graft" are implemented by graft only. Functions may throw graft::Error for
// what the user can fix.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "graft/error.h"
#include "graft/plugin_params.h"
#include "graft/version.h"

namespace graft::plugin {

// A row-major f32 matrix in host memory, not owned and contiguous: row r is at data + r * cols.
struct Rows {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  float* row(std::int64_t r) const { return data + r * cols; }
};

struct ConstRows {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  ConstRows() = default;
  ConstRows(const float* values, std::int64_t num_rows, std::int64_t num_cols)
      : data(values), rows(num_rows), cols(num_cols) {}
  ConstRows(const Rows& of)  // NOLINT(google-explicit-constructor)
      : data(of.data), rows(of.rows), cols(of.cols) {}
  const float* row(std::int64_t r) const { return data + r * cols; }
};

// Of graft: the threads of a pass.
class Threads {
 public:
  virtual ~Threads() = default;

  virtual std::size_t size() const = 0;

  // Calls body(item), or body(worker, item), once for each item in [0, num_items), in no fixed
  // order, and returns when all calls are done. Concurrent calls have different `worker` indices,
  // below min(size(), num_items). The first exception of a body is rethrown here. Do not nest.
  template <class Body>
  void parallel_for(std::size_t num_items, const Body& body) {
    run(num_items, &body, [](const void* any, std::size_t worker, std::size_t item) {
      if constexpr (std::is_invocable_v<const Body&, std::size_t, std::size_t>) {
        (*static_cast<const Body*>(any))(worker, item);
      } else {
        (*static_cast<const Body*>(any))(item);
      }
    });
  }

 protected:
  using Call = void (*)(const void* body, std::size_t worker, std::size_t item);
  virtual void run(std::size_t num_items, const void* body, Call call) = 0;
};

// Of graft: the weights of the checkpoint by Hugging Face name, as floats whatever their stored
// type and file format. Use it only inside Operator::load(), from one thread.
class Weights {
 public:
  virtual ~Weights() = default;

  virtual bool contains(std::string_view name) = 0;
  // [rows, cols]; a vector has one row. Throws Error when it is missing or of another shape.
  virtual std::vector<float> read(std::string_view name, std::int64_t rows, std::int64_t cols) = 0;
  // "gate_proj", "up_proj" or "down_proj" of every routed expert of `module`
  // ("model.layers.3.mlp.experts"), in order: [rows, cols] each. Throws Error as read() does.
  virtual std::vector<std::vector<float>> read_experts(std::string_view module,
                                                       std::string_view projection,
                                                       std::int64_t rows,
                                                       std::int64_t cols) = 0;
};

enum class Phase : std::uint8_t { Prefill, Decode };

// The tokens of one sequence in a pass: `num_tokens` rows from `first_row`, at positions
// [context_len - num_tokens, context_len).
struct Sequence {
  std::int64_t first_row = 0;
  std::int64_t num_tokens = 0;
  std::int64_t context_len = 0;  // tokens known after this pass
};

// Of graft: one forward pass. Valid during the forward() that received it, on the thread that
// called it; a body of parallel_for() may call only const members.
class Pass {
 public:
  virtual ~Pass() = default;

  virtual Phase phase() const = 0;
  virtual std::span<const std::int32_t> token_ids() const = 0;  // [tokens]
  // [tokens], in their own sequence; plus kLongRopeFlag in long sequences of models with LongRoPE.
  virtual std::span<const std::int32_t> positions() const = 0;
  // The last ones may be padding: results of their rows are ignored.
  virtual std::span<const Sequence> sequences() const = 0;
  virtual Threads& threads() = 0;
  // Uninitialized memory, valid until forward() returns. Later passes reuse it without allocating.
  virtual Rows scratch(std::int64_t rows, std::int64_t cols) = 0;
};

// One object per module. Functions are called by one thread at a time. The result of a row must
// depend on its own sequence only, not on the batch, the prefill chunks or the number of threads.
class Operator {
 public:
  Operator() = default;
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  virtual ~Operator() = default;

  // Reads the weights of the module, not those of its children. Called before the first forward()
  // and again after unload().
  virtual void load(Weights& /*weights*/) {}
  virtual void unload() {}  // frees the weights
};

class Embedding : public Operator {
 public:
  // y[tokens, hidden] = table[token_ids]
  virtual void forward(std::span<const std::int32_t> token_ids, Rows y, Pass& pass) = 0;
};

class Norm : public Operator {
 public:
  // y[rows, size] = norm(x); y may be x. Rows are tokens, or heads of tokens (q_norm).
  virtual void forward(ConstRows x, Rows y, Pass& pass) = 0;
};

class Linear : public Operator {
 public:
  // y[rows, out] = x[rows, in] * W[out, in]^T + bias. Rows are tokens; those of lm_head are the
  // tokens whose logits are wanted.
  virtual void forward(ConstRows x, Rows y, Pass& pass) = 0;
};

// `num_heads` heads of `head_dim` values that start `offset` values into every row.
struct Heads {
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;  // distance between heads
  std::int64_t offset = 0;
};

class Rope : public Operator {
 public:
  // Rotates the first rotary_dim values of each head of x[tokens, …] in place. Row r is at
  // pass.positions()[r].
  virtual void forward(Rows x, const Heads& heads, Pass& pass) = 0;
};

class Attention : public Operator {
 public:
  // y[tokens, hidden] = attention(x[tokens, hidden]). Writes the keys and values of this pass to
  // the cache first.
  virtual void forward(ConstRows x, Rows y, Pass& pass) = 0;
};

// A feed-forward block: the roles mlp (dense) and moe (router, experts, shared experts).
class Mlp : public Operator {
 public:
  virtual void forward(ConstRows x, Rows y, Pass& pass) = 0;  // [tokens, hidden]
};

// The experts of every token.
struct Routing {
  std::int32_t* expert_ids = nullptr;  // [tokens, top_k]
  float* weights = nullptr;            // [tokens, top_k]
  std::int64_t top_k = 0;
};

class Router : public Operator {
 public:
  // Writes `out` for every row of x[tokens, hidden].
  virtual void forward(ConstRows x, const Routing& out, Pass& pass) = 0;
  virtual std::int64_t top_k() const = 0;  // experts per token
};

class Experts : public Operator {
 public:
  // y[tokens, hidden] = sum over the chosen experts of weight * expert(x)
  virtual void forward(ConstRows x, const Routing& routing, Rows y, Pass& pass) = 0;
};

// Of graft: the KV cache of one layer, the child "kv_cache" of an attention module. One row of keys
// and one of values per position; multi-head latent attention has keys only.
class KvCache : public Operator {
 public:
  // Positions [begin, end), columns [first_col, first_col + num_cols) of each: whole heads.
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t first_col = 0;
    std::int64_t num_cols = 0;
  };

  // Stores the rows of this pass at their positions. `value` is empty for latent attention.
  virtual void write(ConstRows key, ConstRows value, Pass& pass) = 0;
  // Part of the rows of pass.sequences()[sequence] as floats: out[end - begin, num_cols]. May be
  // called by several threads.
  virtual void read_keys(std::size_t sequence,
                         const Part& part,
                         float* out,
                         const Pass& pass) const = 0;
  virtual void read_values(std::size_t sequence,
                           const Part& part,
                           float* out,
                           const Pass& pass) const = 0;
};

// Of graft: what a factory works from. Valid during the call of the factory.
class BuildContext {
 public:
  virtual ~BuildContext() = default;

  // The Hugging Face name, such as "model.layers.3.self_attn": the prefix of the weights' names.
  virtual const std::string& module() const = 0;
  // The configuration values of the role: NormParams for a norm, AttentionParams or MlaParams for
  // attention, ExpertsParams for moe. Registration::fits restricts which a factory receives.
  virtual const Params& params() const = 0;
  template <class P>
  const P& params_as() const {
    return std::get<P>(params());
  }

  // A kwarg of the rule, `fallback` when the rule does not give it. Throw Error when its text is
  // not of that kind.
  virtual std::string text_kwarg(std::string_view key, std::string_view fallback) const = 0;
  virtual bool bool_kwarg(std::string_view key, bool fallback) const = 0;
  virtual std::int64_t int_kwarg(std::string_view key, std::int64_t fallback) const = 0;
  virtual double double_kwarg(std::string_view key, double fallback) const = 0;

  // The operator of a child module by its last name: child<Linear>("q_proj"). graft owns and loads
  // it; it lives as long as the operator that is built. It may run on another device. Null when
  // there is no such child of that role.
  template <class Op>
  Op* child(std::string_view name) const {
    return dynamic_cast<Op*>(find_child(name));
  }

  // Another operator of the same role for this module, such as "cpu.rms_norm", to wrap or to
  // compare with. The caller owns it and calls its load() and unload(). Throws Error when this
  // build has none of that name for the module.
  template <class Op>
  std::unique_ptr<Op> make(std::string_view name) const {
    std::unique_ptr<Operator> made = make_operator(name);
    auto* typed = dynamic_cast<Op*>(made.get());
    if (typed == nullptr) throw Error(std::string(name) + " has another role");
    static_cast<void>(made.release());
    return std::unique_ptr<Op>(typed);
  }

 protected:
  virtual Operator* find_child(std::string_view name) const = 0;
  virtual std::unique_ptr<Operator> make_operator(std::string_view name) const = 0;
};

enum class Role : std::uint8_t {
  Embedding,
  Norm,
  Linear,
  Rope,
  Attention,
  Mlp,
  Moe,  // the interface Mlp
  Router,
  Experts,
};

struct Registration {
  std::string name = {};  // of the operator in rule files; prefix it to avoid clashes: "mine.norm"
  Role role = Role::Linear;
  std::string summary = {};              // one line for tables
  std::vector<std::string> kwargs = {};  // the keys it understands; others are rejected
  // Whether it computes a module with these values; empty: every module of the role.
  std::function<bool(const Params& params)> fits = {};
  // Makes the operator of a module, of the interface of `role`.
  std::function<std::unique_ptr<Operator>(const BuildContext& context)> make = {};
};

// Of graft.
class Registry {
 public:
  virtual ~Registry() = default;

  // Throws Error when the name is taken or `make` is empty.
  virtual void add(Registration registration) = 0;
};

// Differs when the types above were compiled otherwise: from other headers of the same version, or
// for another standard library.
constexpr std::uint32_t layout() {
  std::size_t mixed = 0;
  for (const std::size_t bytes :
       {sizeof(Registration), sizeof(Params), sizeof(RopeParams), sizeof(RouterParams),
        sizeof(Rows), sizeof(Sequence), sizeof(Heads), sizeof(Routing), sizeof(KvCache::Part)})
    mixed = mixed * 31 + bytes;
  return static_cast<std::uint32_t>(mixed);
}

struct Plugin {
  const char* version = GRAFT_VERSION;  // stays the first member in every version
  std::uint32_t layout = plugin::layout();
  // Called once for every registry the plugin is loaded into; may throw. The library stays loaded
  // until the process ends.
  void (*add_operators)(Registry& registry) = nullptr;
};

}  // namespace graft::plugin

// Defined by the plugin.
extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): a C symbol
[[gnu::visibility("default")]] extern const graft::plugin::Plugin graft_plugin;
}
