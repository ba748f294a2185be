// The attention operators with projections that cost nothing. Prefill: GFLOP/s on one thread,
// counting unmasked products only. Decode of one token: KV cache bytes per second, on one thread
// and on all.

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/registry.h"

namespace graft::ops::cpu {
namespace {

std::vector<float> some_values(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 61) * 0.01F - 0.3F;
  return values;
}

// Ignores its input and copies constant values.
class ConstantLinear final : public Linear {
 public:
  void load(WeightProvider& /*weights*/) override {}
  void forward(const Activation& /*x*/, TensorView y, Pass& /*pass*/) override {
    if (static_cast<std::int64_t>(values_.size()) < y.num_elems()) {
      values_ = some_values(y.num_elems());
    }
    std::copy_n(values_.begin(), y.num_elems(), y.f32());
  }

 private:
  std::vector<float> values_;
};

class NoLinear final : public Linear {
 public:
  void load(WeightProvider& /*weights*/) override {}
  void forward(const Activation& /*x*/, TensorView /*y*/, Pass& /*pass*/) override {}
};

class NoNorm final : public Norm {
 public:
  void load(WeightProvider& /*weights*/) override {}
  void forward(TensorView /*x*/, TensorView /*y*/, Pass& /*pass*/) override {}
};

class NoRope final : public Rope {
 public:
  void load(WeightProvider& /*weights*/) override {}
  void forward(TensorView /*x*/, const Heads& /*heads*/, Pass& /*pass*/) override {}
};

struct Shape {
  std::string name;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;  // 0: multi-head latent attention
  std::int64_t head_dim;
  std::int64_t rank = 0;  // kv_lora_rank; head_dim is then qk_rope_head_dim
  bool absorb = true;

  std::int64_t key_dim() const { return rank + head_dim; }
  std::int64_t value_dim() const { return rank == 0 ? head_dim : rank; }
};

// Small, so that attention over the latents dominates.
constexpr std::int64_t kNope = 16;
constexpr std::int64_t kMlaValue = 16;

class ConstantWeights final : public WeightProvider {
 public:
  Weight get(std::string_view name) override {
    Weight weight = {.name = std::string(name), .dtype = DType::F32, .shape = shape};
    auto buffer = std::make_shared<Buffer>(static_cast<std::size_t>(shape[0] * shape[1]) * 4);
    std::fill_n(reinterpret_cast<float*>(buffer->data()), shape[0] * shape[1], 0.01F);
    weight.data = buffer->data();
    weight.owned = std::move(buffer);
    return weight;
  }
  bool contains(std::string_view /*name*/) override { return true; }
  std::vector<Weight> experts(std::string_view /*experts*/, std::string_view /*proj*/) override {
    return {};
  }

  std::vector<std::int64_t> shape;
};

class Layer {
 public:
  Layer(const Shape& shape,
        const std::string& dtype,
        std::int64_t num_positions,
        std::size_t num_threads = 1)
      : pool_(num_threads) {
    const Kwargs cache_kwargs = {{"dtype", dtype}};
    const bool latent = shape.num_kv_heads == 0;
    const std::int64_t row = latent ? shape.key_dim() : shape.num_kv_heads * shape.head_dim;
    row_size_ = row;
    make("cpu.kv_cache", "kv_cache", KvCacheParams{.key_size = row, .value_size = latent ? 0 : row},
         cache_kwargs);
    for (const char* name : {"q_proj", "k_proj", "v_proj", "kv_a_proj_with_mqa"})
      children_[name] = std::make_unique<ConstantLinear>();
    children_["o_proj"] = std::make_unique<NoLinear>();
    children_["kv_a_layernorm"] = std::make_unique<NoNorm>();
    if (latent) {
      children_["rotary_emb"] = std::make_unique<NoRope>();
      make("cpu.mla", "attention",
           MlaParams{.num_heads = shape.num_heads,
                     .kv_lora_rank = shape.rank,
                     .qk_nope_head_dim = kNope,
                     .qk_rope_head_dim = shape.head_dim,
                     .v_head_dim = kMlaValue,
                     .scale = 0.05F},
           {{"absorb", shape.absorb ? "true" : "false"}});
      ConstantWeights weights;
      weights.shape = {shape.num_heads * (kNope + kMlaValue), shape.rank};
      children_["attention"]->load(weights);
    } else {
      make("cpu.attention", "attention",
           AttentionParams{.num_heads = shape.num_heads,
                           .num_key_value_heads = shape.num_kv_heads,
                           .head_dim = shape.head_dim,
                           .scale = 0.1F},
           {});
    }
    auto& cache = dynamic_cast<KvCache&>(*children_["kv_cache"]);
    num_blocks_ = num_positions / cache.block_tokens() + 1;
    cache.allocate(num_blocks_, cache.block_tokens());
  }

  void fill_cache(std::int64_t num_positions) {
    const Batch batch = make_batch(num_positions, num_positions);
    Pass pass = {.batch = batch, .pool = pool_, .workspace = workspace_};
    std::vector<float> rows = some_values(num_positions * row_size_);
    const TensorView view(rows.data(), DType::F32, {num_positions, row_size_});
    dynamic_cast<KvCache&>(*children_["kv_cache"]).write(view, view, pass);
  }

  // Computes the last `num_tokens` of `context_len` tokens.
  void run(std::int64_t num_tokens, std::int64_t context_len) {
    const Batch batch = make_batch(num_tokens, context_len);
    const Workspace::Scope scope(workspace_);
    const TensorView x = workspace_.f32({num_tokens, 1});
    const TensorView y = workspace_.f32({num_tokens, 1});
    Pass pass = {.batch = batch,
                 .phase = num_tokens == 1 ? Phase::Decode : Phase::Prefill,
                 .pool = pool_,
                 .workspace = workspace_};
    dynamic_cast<Attention&>(*children_["attention"]).forward(x, y, pass);
  }

 private:
  Batch make_batch(std::int64_t num_tokens, std::int64_t context_len) const {
    Batch batch;
    batch.token_ids.resize(static_cast<std::size_t>(num_tokens));
    batch.positions.resize(static_cast<std::size_t>(num_tokens));
    std::iota(batch.positions.begin(), batch.positions.end(),
              static_cast<std::int32_t>(context_len - num_tokens));
    SequenceSlice slice = {.num_tokens = num_tokens, .context_len = context_len, .block_table = {}};
    slice.block_table.resize(static_cast<std::size_t>(num_blocks_));
    std::iota(slice.block_table.begin(), slice.block_table.end(), 0);
    batch.sequences.push_back(std::move(slice));
    return batch;
  }

  void make(std::string_view op,
            const std::string& name,
            const Params& params,
            const Kwargs& kwargs) {
    BuildContext context;
    context.module = name;
    context.params = &params;
    context.kwargs = &kwargs;
    context.primitives = &registry_.primitives(DeviceType::Cpu);
    context.child = [&](std::string_view child) -> Child<Operator> {
      const auto found = children_.find(child);
      return {.op = found == children_.end() ? nullptr : found->second.get()};
    };
    children_[name] = registry_.find(op)->make(context);
  }

  Registry registry_ = builtin_operators();
  std::map<std::string, std::unique_ptr<Operator>, std::less<>> children_;
  std::int64_t row_size_ = 0;
  std::int64_t num_blocks_ = 0;
  ThreadPool pool_;
  Workspace workspace_;
};

void prefill(benchmark::State& state, const Shape& shape, const std::string& dtype) {
  const std::int64_t t = state.range(0);
  Layer layer(shape, dtype, t);
  for (auto _ : state)  // NOLINT(clang-analyzer-deadcode.DeadStores)
    layer.run(t, t);
  const std::int64_t num_scores = t * (t + 1) / 2;
  const auto flops =
      static_cast<double>(2 * num_scores * shape.num_heads * (shape.key_dim() + shape.value_dim()));
  state.counters["flop/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// num_threads 0: one per core
void decode(benchmark::State& state,
            const Shape& shape,
            const std::string& dtype,
            std::size_t num_threads) {
  const std::int64_t context_len = state.range(0);
  Layer layer(shape, dtype, context_len, num_threads);
  layer.fill_cache(context_len);
  for (auto _ : state)  // NOLINT(clang-analyzer-deadcode.DeadStores)
    layer.run(1, context_len);
  const std::int64_t row =
      shape.num_kv_heads == 0 ? shape.key_dim() : 2 * shape.num_kv_heads * shape.head_dim;
  const auto bytes = context_len * static_cast<std::int64_t>(bytes_of(*cache_dtype(dtype), row));
  state.SetBytesProcessed(state.iterations() * bytes);
}

[[maybe_unused]] const bool kRegistered = [] {
  const std::vector<Shape> shapes = {
      {.name = "32x64/8", .num_heads = 32, .num_kv_heads = 8, .head_dim = 64},
      {.name = "32x128/8", .num_heads = 32, .num_kv_heads = 8, .head_dim = 128},
      {.name = "mla16x576", .num_heads = 16, .num_kv_heads = 0, .head_dim = 64, .rank = 512},
  };
  for (const Shape& shape : shapes) {
    for (const char* dtype : {"f16", "bf16", "f32", "fp8", "q8_0", "q4_0"}) {
      const std::string suffix = "/" + shape.name + "/" + dtype;
      benchmark::RegisterBenchmark(("attention_prefill" + suffix).c_str(),
                                   [=](benchmark::State& state) { prefill(state, shape, dtype); })
          ->Arg(512)
          ->Arg(4096)
          ->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("attention_decode" + suffix).c_str(),
                                   [=](benchmark::State& state) { decode(state, shape, dtype, 1); })
          ->Arg(512)
          ->Arg(4096)
          ->Arg(32768)
          ->Unit(benchmark::kMicrosecond);
      benchmark::RegisterBenchmark(("attention_decode_all_threads" + suffix).c_str(),
                                   [=](benchmark::State& state) { decode(state, shape, dtype, 0); })
          ->Arg(4096)
          ->Arg(32768)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace graft::ops::cpu
