// Cases of DeepSeek-V4's modules: compressed attention, its compressors and indexer, and
// hyper-connections.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graft/testing/parity/cases.h"

namespace graft::ops::testing {
namespace {

constexpr std::int64_t kWidth = 256;  // of hidden states
constexpr std::int64_t kLatents = 256;
constexpr std::int64_t kEntryDim = 64;
constexpr std::int64_t kEntryRope = 16;
constexpr std::int64_t kRate = 4;
constexpr std::int64_t kEntries = 5;  // that the indexer selects, fewer than contexts have
// Without F32 arithmetic another entry may be selected: any finite result passes.
constexpr double kAnyEntries = 1e30;

CompressorParams windows_of(std::int64_t head_dim, bool overlaps) {
  return {.hidden_size = kWidth,
          .head_dim = head_dim,
          .rope_dim = kEntryRope,
          .rate = kRate,
          .overlaps = overlaps};
}

const IndexerParams kIndex = {.hidden_size = kWidth,
                              .q_lora_rank = kLatents,
                              .num_heads = 4,
                              .head_dim = 32,
                              .top_k = kEntries,
                              .scale = 0.1F,
                              .compress_rate = kRate,
                              .rope_dim = kEntryRope};

// prefix: "", "compressor." or "compressor.indexer.". Returns the cache of entries.
KvCache& add_windows(OperatorBench& bench,
                     const std::string& prefix,
                     const CompressorParams& params,
                     Exercise& exercise) {
  const std::int64_t width = params.row_size();
  bench.add_f32_matrix(prefix + "position_bias", params.rate, width);
  for (const char* projection : {"kv_proj", "gate_proj"})
    bench.add_linear(prefix + projection, {.in_features = kWidth, .out_features = width});
  bench.add_norm(prefix + "kv_norm", params.head_dim);
  bench.add_child<Rope>(prefix + "rotary_emb", Role::Rope, parity_rope(kEntryRope, true));
  exercise.caches.push_back(&bench.add_child<KvCache>(
      prefix + "window_cache", Role::KvCache,
      KvCacheParams{.key_size = width, .value_size = width, .head_size = params.head_dim}));
  auto& entries = bench.add_child<KvCache>(prefix + "kv_cache", Role::KvCache,
                                           KvCacheParams{.key_size = params.head_dim});
  exercise.caches.push_back(&entries);
  return entries;
}

void add_index(OperatorBench& bench, const std::string& prefix, Exercise& exercise) {
  add_windows(bench, prefix, windows_of(kIndex.head_dim, true), exercise);
  bench.add_linear(prefix + "q_b_proj",
                   {.in_features = kLatents, .out_features = kIndex.num_heads * kIndex.head_dim});
  bench.add_linear(prefix + "scorer.weights_proj",
                   {.in_features = kWidth, .out_features = kIndex.num_heads});
}

Exercise build_compressed_indexer(OperatorBench& bench) {
  Exercise exercise;
  add_index(bench, "", exercise);
  auto& indexer = bench.add_subject<Indexer>(Role::Indexer, kIndex);
  exercise.forward = [&indexer](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(kWidth);
    const TensorView latents = run.random_rows(kLatents);
    const TensorView selected = run.unwritten(kEntries, DType::I32);
    indexer.forward(x, latents, selected, run.pass());
    return {run.download("selected", selected)};
  };
  return exercise;
}

// The result is the entries that the pass completes.
Exercise build_compressor(OperatorBench& bench, bool overlaps) {
  Exercise exercise;
  const CompressorParams params = windows_of(kEntryDim, overlaps);
  KvCache& cache = add_windows(bench, "", params, exercise);
  auto& compressor = bench.add_subject<Compressor>(Role::Compressor, params);
  exercise.forward = [&compressor, &cache](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(kWidth);
    compressor.forward(x, {}, {}, run.pass());
    ParityResult entries = {.name = "entries", .cols = kEntryDim, .values = {}};
    for (const SequenceSlice& sequence : run.batch().unpadded_sequences()) {
      for (std::int64_t row = kRate - 1; row < sequence.context_len; row += kRate) {
        Floats values(static_cast<std::size_t>(kEntryDim));
        cache.read_keys(sequence, {.begin = row, .end = row + 1, .num_cols = kEntryDim},
                        values.data());
        entries.values.insert(entries.values.end(), values.begin(), values.end());
      }
    }
    return {entries};
  };
  return exercise;
}

Exercise build_compressed_attention(OperatorBench& bench, const CompressedAttentionParams& params) {
  Exercise exercise;
  const std::int64_t q_size = params.num_heads * params.head_dim;
  const std::int64_t groups = params.output_groups;
  bench.add_vector("sinks", params.num_heads, 1.0F, 0.0F);
  bench.add_linear("q_a_proj", {.in_features = kWidth, .out_features = kLatents});
  bench.add_norm("q_a_norm", kLatents);
  bench.add_linear("q_b_proj", {.in_features = kLatents, .out_features = q_size});
  bench.add_child<Norm>("q_b_norm", Role::Norm,
                        NormParams{.size = params.head_dim, .has_weight = false});
  bench.add_linear("kv_proj", {.in_features = kWidth, .out_features = params.head_dim});
  bench.add_norm("kv_norm", params.head_dim);
  bench.add_linear("o_a_proj", {.in_features = q_size / groups,
                                .out_features = groups * params.output_lora_rank,
                                .groups = groups});
  bench.add_linear("o_b_proj",
                   {.in_features = groups * params.output_lora_rank, .out_features = kWidth});
  RopeParams rope = parity_rope(params.rope_dim, true);
  bench.add_child<Rope>("rotary_emb", Role::Rope, rope);
  for (float& frequency : rope.inv_freq)
    frequency = -frequency;
  bench.add_child<Rope>("inverse_rotary_emb", Role::Rope, rope);
  exercise.caches.push_back(&bench.add_child<KvCache>("kv_cache", Role::KvCache,
                                                      KvCacheParams{.key_size = params.head_dim}));
  if (params.compress_rate > 0) {
    CompressorParams windows = windows_of(params.head_dim, params.index_top_k > 0);
    windows.index_top_k = params.index_top_k;
    add_windows(bench, "compressor.", windows, exercise);
    if (params.index_top_k > 0) {
      add_index(bench, "compressor.indexer.", exercise);
      bench.add_child<Indexer>("compressor.indexer", Role::Indexer, kIndex);
    }
    bench.add_child<Compressor>("compressor", Role::Compressor, windows);
  }
  auto& attention = bench.add_subject<Attention>(Role::Attention, params);
  exercise.forward = [&attention](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(kWidth);
    const TensorView y = run.unwritten(kWidth);
    attention.forward(x, y, run.pass());
    return {run.download("y", y)};
  };
  return exercise;
}

Exercise build_hyper_connection(OperatorBench& bench, const HyperConnectionParams& params) {
  const std::int64_t mix = (2 + params.mult) * params.mult;
  const std::int64_t cols = params.mult * params.hidden_size;
  bench.add_f32_matrix("fn", mix, cols);
  bench.add_vector("base", mix, 1.0F, 0.0F);
  bench.add_vector("scale", 3, 0.5F, 1.0F);
  auto& connection = bench.add_subject<HyperConnection>(Role::HyperConnection, params);
  return {.forward = [&connection, params, cols](DeviceRun& run) -> std::vector<ParityResult> {
    const std::int64_t mult = params.mult;
    const TensorView streams = run.random_rows(cols);
    const TensorView y = run.unwritten(params.hidden_size);
    const TensorView weights = run.unwritten(mult + mult * mult);
    connection.collapse(streams, y, weights, run.pass());
    const ParityResult read = run.download("y", y);
    connection.add(y, weights, streams, run.pass());
    return {read, run.download("streams", streams)};
  }};
}

}  // namespace

std::vector<ParityCase> compressed_indexer_cases() {
  return {{.name = "entries of 4 tokens",
           .role = Role::Indexer,
           .params = kIndex,
           .build = build_compressed_indexer,
           .tolerance = kSameBits,
           .types = ParityCase::Types::F32}};  // others select other entries
}

std::vector<ParityCase> compressor_cases() {
  std::vector<ParityCase> cases;
  for (const bool overlaps : {false, true}) {
    cases.push_back(
        {.name = overlaps ? "overlapping windows" : "windows",
         .role = Role::Compressor,
         .params = windows_of(kEntryDim, overlaps),
         .build = [overlaps](OperatorBench& bench) { return build_compressor(bench, overlaps); },
         .tolerance = {kF32Chain, kF16Cache, kHalfChain, kInt8Chain},
         .block = 256});
  }
  return cases;
}

std::vector<ParityCase> compressed_attention_cases() {
  std::vector<ParityCase> cases;
  for (const auto& [rate, top_k] : {std::pair{0, 0}, {4, 0}, {4, 5}}) {
    const CompressedAttentionParams params = {.num_heads = 8,
                                              .head_dim = kEntryDim,
                                              .rope_dim = kEntryRope,
                                              .q_lora_rank = kLatents,
                                              .sliding_window = 10,
                                              .output_groups = 2,
                                              .output_lora_rank = 128,
                                              .scale = 0.125F,
                                              .compress_rate = rate,
                                              .index_top_k = top_k};
    const Tolerance any = {kF32Chain, kAnyEntries, kAnyEntries, kAnyEntries};
    const Tolerance all = {kF32Chain, kF16Cache, kHalfChain, kInt8Chain};
    cases.push_back(
        {.name = str("compressed, rate ", rate, ", top ", top_k),
         .role = Role::Attention,
         .params = params,
         .build =
             [params](OperatorBench& bench) { return build_compressed_attention(bench, params); },
         .tolerance = top_k > 0 ? any : all,
         .block = 256});
  }
  return cases;
}

std::vector<ParityCase> hyper_connection_cases() {
  std::vector<ParityCase> cases;
  for (const auto& [hidden, mult] : {std::pair{96, 4}, {300, 4}, {37, 2}, {64, 3}, {20, 9}}) {
    const HyperConnectionParams params = {
        .hidden_size = hidden, .mult = mult, .sinkhorn_iters = 20};
    cases.push_back(
        {.name = str(mult, " streams of ", hidden),
         .role = Role::HyperConnection,
         .params = params,
         .build = [params](OperatorBench& bench) { return build_hyper_connection(bench, params); },
         .tolerance = {kF32Chain, kF32Chain, kF32Chain, kF32Chain},
         .types = ParityCase::Types::F32});
  }
  return cases;
}

}  // namespace graft::ops::testing
