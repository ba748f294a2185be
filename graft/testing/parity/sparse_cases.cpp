// Cases of the indexer, and of latent attention over the positions that it selects.

#include <cstddef>

#include "graft/testing/parity/cases.h"

namespace graft::ops::testing {
namespace {

using Types = ParityCase::Types;

// Fewer than the contexts of the batches.
constexpr std::int64_t kTopK = 16;
constexpr std::int64_t kMaxPositions = 128;  // above all contexts
// Without F32 arithmetic scores are rounded and another position may be selected: any result
// passes, as long as it is finite and whole.
constexpr double kAnySelection = 1e30;

struct SparseCase {
  std::string name;
  IndexerParams params;
  std::int64_t rotary_dim = 0;
  bool is_interleaved = false;
};

IndexerParams indexer(std::int64_t heads, std::int64_t head_dim, std::int64_t q_rank) {
  return {.hidden_size = 256,
          .q_lora_rank = q_rank,
          .num_heads = heads,
          .head_dim = head_dim,
          .top_k = kTopK,
          .scale = 0.1F};
}

// prefix: "", or "indexer." below latent attention.
KvCache& add_children(OperatorBench& bench, const std::string& prefix, const SparseCase& of) {
  const IndexerParams& params = of.params;
  bench.add_vector(prefix + "k_norm.weight", params.head_dim, 0.3F, 1.0F);
  bench.add_vector(prefix + "k_norm.bias", params.head_dim, 0.3F, 0.0F);
  bench.add_linear(prefix + "wq_b", {.in_features = params.q_lora_rank,
                                     .out_features = params.num_heads * params.head_dim});
  bench.add_linear(prefix + "wk",
                   {.in_features = params.hidden_size, .out_features = params.head_dim});
  bench.add_linear(prefix + "weights_proj",
                   {.in_features = params.hidden_size, .out_features = params.num_heads});
  bench.add_child<Rope>(prefix + "rotary_emb", Role::Rope,
                        parity_rope(of.rotary_dim, of.is_interleaved));
  return bench.add_child<KvCache>(prefix + "kv_cache", Role::KvCache,
                                  KvCacheParams{.key_size = params.head_dim});
}

// The selection of each row as flags by position, and its size.
std::vector<ParityResult> flags_of(const ParityResult& selected) {
  ParityResult flags = {.name = "selected positions", .cols = kMaxPositions, .values = {}};
  ParityResult counts = {.name = "order of positions", .cols = 1, .values = {}, .is_exact = true};
  const auto rows = static_cast<std::int64_t>(selected.values.size()) / kTopK;
  flags.values.resize(static_cast<std::size_t>(rows * kMaxPositions), 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    float count = 0;
    float last = -1;
    bool is_ascending = true;
    for (std::int64_t i = 0; i < kTopK; ++i) {
      const float position = selected.values[static_cast<std::size_t>(row * kTopK + i)];
      if (position < 0) continue;
      is_ascending = is_ascending && position > last && count == static_cast<float>(i) &&
                     position < static_cast<float>(kMaxPositions);
      last = position;
      ++count;
      if (is_ascending) {
        flags.values[static_cast<std::size_t>(row * kMaxPositions) +
                     static_cast<std::size_t>(position)] = 1.0F;
      }
    }
    counts.values.push_back(is_ascending ? count : -1.0F);
  }
  return {flags, counts};
}

Exercise build_indexer(OperatorBench& bench, const SparseCase& of) {
  KvCache& cache = add_children(bench, "", of);
  auto& indexer = bench.add_subject<Indexer>(Role::Indexer, of.params);
  const IndexerParams params = of.params;
  return {.forward = [&indexer, params](DeviceRun& run) -> std::vector<ParityResult> {
            const TensorView x = run.random_rows(params.hidden_size);
            const TensorView latents = run.random_rows(params.q_lora_rank);
            const TensorView selected = run.unwritten(params.top_k, DType::I32);
            indexer.forward(x, latents, selected, run.pass());
            return flags_of(run.download("selected", selected));
          },
          .cache = &cache};
}

Exercise build_sparse_mla(OperatorBench& bench, const SparseCase& of, const MlaParams& params) {
  const std::int64_t hidden = of.params.hidden_size;
  const std::int64_t row_size = params.kv_lora_rank + params.qk_rope_head_dim;
  bench.add_linear("q_a_proj", {.in_features = hidden, .out_features = params.q_lora_rank});
  bench.add_norm("q_a_layernorm", params.q_lora_rank);
  bench.add_linear("q_b_proj", {.in_features = params.q_lora_rank,
                                .out_features = params.num_heads * (params.qk_nope_head_dim +
                                                                    params.qk_rope_head_dim)});
  bench.add_linear("kv_a_proj_with_mqa", {.in_features = hidden, .out_features = row_size});
  bench.add_norm("kv_a_layernorm", params.kv_lora_rank);
  bench.add_matrix("kv_b_proj.weight",
                   params.num_heads * (params.qk_nope_head_dim + params.v_head_dim),
                   params.kv_lora_rank);
  bench.add_linear("o_proj",
                   {.in_features = params.num_heads * params.v_head_dim, .out_features = hidden});
  bench.add_child<Rope>("rotary_emb", Role::Rope, parity_rope(params.qk_rope_head_dim, true));
  auto& cache =
      bench.add_child<KvCache>("kv_cache", Role::KvCache, KvCacheParams{.key_size = row_size});
  KvCache& index_cache = add_children(bench, "indexer.", of);
  bench.add_child<Indexer>("indexer", Role::Indexer, of.params);
  auto& attention = bench.add_subject<Attention>(Role::Attention, params);
  return {.forward = [&attention, hidden](DeviceRun& run) -> std::vector<ParityResult> {
            const TensorView x = run.random_rows(hidden);
            const TensorView y = run.unwritten(hidden);
            attention.forward(x, y, run.pass());
            return {run.download("y", y)};
          },
          .cache = &cache,
          .index_cache = &index_cache};
}

}  // namespace

std::vector<ParityCase> indexer_cases() {
  const std::vector<SparseCase> kinds = {
      {"4 heads of 64", indexer(4, 64, 256), 32, false},
      {"72 heads of 128, pairs", indexer(72, 128, 256), 64, true},
      {"3 heads of 24", indexer(3, 24, 256), 8, false}};
  std::vector<ParityCase> cases;
  cases.reserve(kinds.size());
  for (const SparseCase& kind : kinds) {
    cases.push_back({.name = kind.name,
                     .role = Role::Indexer,
                     .params = kind.params,
                     .build = [kind](OperatorBench& bench) { return build_indexer(bench, kind); },
                     .tolerance = {0.5, kAnySelection, kAnySelection, kAnySelection},
                     .block = 256});
  }
  return cases;
}

std::vector<ParityCase> sparse_mla_cases() {
  const SparseCase index = {"", indexer(4, 64, 256), 32, false};
  const MlaParams params = {.num_heads = 4,
                            .q_lora_rank = 256,
                            .kv_lora_rank = 256,
                            .qk_nope_head_dim = 32,
                            .qk_rope_head_dim = 32,
                            .v_head_dim = 64,
                            .scale = 0.125F,
                            .index_top_k = kTopK};
  return {{.name = "latent, with an indexer",
           .role = Role::Attention,
           .params = params,
           .build = [index, params](
                        OperatorBench& bench) { return build_sparse_mla(bench, index, params); },
           .tolerance = {kF32Chain, kAnySelection, kAnySelection, kAnySelection},
           .block = 256,
           .kwargs = {{}, {{"absorb", "false"}}, {{"absorb_for_prefill", "true"}}}}};
}

}  // namespace graft::ops::testing
