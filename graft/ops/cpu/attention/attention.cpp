#include <algorithm>
#include <string>
#include <vector>

#include "graft/ops/cpu/attention/attend.h"
#include "graft/ops/cpu/operators.h"

namespace graft::ops::cpu {
namespace {

// Query rows that share a block of dequantized keys and values: enough to amortize dequantizing.
constexpr std::int64_t kRowsPerTile = 2 * kAttentionRows;

// Source i is KV head i of the cache.
class HeadsOfCache final : public KeyValueSource {
 public:
  HeadsOfCache(const KvCache& cache, std::int64_t head_dim)
      : cache_(cache), stored_(stored_cache(cache, head_dim)), head_dim_(head_dim) {}

  // [2, kAttentionBlock, head_dim]
  std::int64_t memory_elems() const override { return 2 * kAttentionBlock * head_dim_; }

  const StoredCache* stored() const override { return stored_; }

  KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const override {
    const KvCache::Part part = {.begin = positions.begin,
                                .end = positions.end,
                                .first_col = tile.source * head_dim_,
                                .num_cols = head_dim_,
                                .follow = positions.follow};
    float* values = memory + kAttentionBlock * head_dim_;
    cache_.read_keys(*tile.tokens.sequence, part, memory);
    cache_.read_values(*tile.tokens.sequence, part, values);
    const std::int64_t count = positions.end - positions.begin;
    return {.keys = {.data = memory, .rows = count, .stride = head_dim_},
            .values = {.data = values, .rows = count, .stride = head_dim_}};
  }

 private:
  // Kernels read whole registers: heads must be a multiple of them. Caches of plugins have no rows.
  static const StoredCache* stored_cache(const KvCache& cache, std::int64_t head_dim) {
    const auto* stored = dynamic_cast<const StoredCache*>(&cache);
    const bool has_kernels = stored != nullptr && stored->kernels().add_values != nullptr;
    return has_kernels && head_dim % 16 == 0 ? stored : nullptr;
  }

  const KvCache& cache_;
  const StoredCache* stored_;
  std::int64_t head_dim_;
};

class AttentionCpu final : public AttentionCore {
 public:
  explicit AttentionCpu(const BuildContext& context)
      : params_(context.params_as<AttentionParams>()),
        module_(context.module),
        kv_cache_(*context.child_as<KvCache>("kv_cache")) {}

  void load(WeightProvider& weights) override {
    if (params_.sinks) sinks_ = load_vector(weights, module_ + ".sinks", params_.num_heads);
  }
  void unload() override { sinks_ = {}; }

  void forward(TensorView q, TensorView out, Pass& pass) override {
    const std::int64_t head_dim = params_.head_dim;
    const AttentionShape shape = {.key_dim = head_dim,
                                  .value_dim = head_dim,
                                  .scale = params_.scale,
                                  .window = params_.sliding_window,
                                  .chunk = params_.chunk};
    const std::int64_t num_kv_heads = params_.num_key_value_heads;
    const std::int64_t group = params_.num_heads / num_kv_heads;
    const std::int64_t tile_tokens = std::max<std::int64_t>(1, kRowsPerTile / group);
    std::vector<HeadTile> tiles;
    for (const TokenTile& tokens : token_tiles(pass.batch, 0, q.rows(), tile_tokens)) {
      for (std::int64_t kv_head = 0; kv_head < num_kv_heads; ++kv_head) {
        const std::int64_t first_col = kv_head * group * head_dim;
        tiles.push_back({.tokens = tokens,
                         .source = kv_head,
                         .queries = q.f32_row(tokens.first_row) + first_col,
                         .query_stride = q.cols(),
                         .out = out.f32_row(tokens.first_row) + first_col,
                         .out_stride = out.cols(),
                         .num_heads = group,
                         .sinks = params_.sinks ? sinks_.data() + kv_head * group : nullptr});
      }
    }
    // Head groups for decode only: prefill has enough rows per head to amortize reading, and
    // several heads at once would not fit into the L2 cache.
    const auto num_sequences = static_cast<std::int64_t>(pass.batch.sequences.size());
    const std::int64_t tiles_per_group = q.rows() == num_sequences ? num_kv_heads : 1;
    attend(shape, tiles, tiles_per_group, HeadsOfCache(kv_cache_, head_dim), pass);
  }

 private:
  AttentionParams params_;
  std::string module_;
  KvCache& kv_cache_;
  std::vector<float> sinks_;  // [heads]; empty: none
};

}  // namespace

std::unique_ptr<AttentionCore> make_attention_core(const BuildContext& context) {
  return std::make_unique<AttentionCpu>(context);
}

}  // namespace graft::ops::cpu
