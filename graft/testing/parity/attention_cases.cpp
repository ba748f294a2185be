// Cases of the roles with a KV cache.

#include <cmath>
#include <cstddef>

#include "graft/testing/parity/cases.h"

namespace graft::ops::testing {
namespace {

using Types = ParityCase::Types;

// A sliding window that is shorter than the contexts of the batches.
constexpr std::int64_t kWindow = 24;

struct AttentionCase {
  std::string name;
  AttentionParams params;
  std::int64_t hidden = 0;
  std::int64_t rotary_dim = 0;  // 0: positions are not encoded
  bool bias = false;
  std::int64_t block = 1;
  Types types = Types::Few;
  bool l2_norm = false;  // one norm without weights instead of q_norm and k_norm
};

struct MlaCase {
  std::string name;
  MlaParams params;
  std::int64_t hidden = 0;
  std::int64_t block = 1;
  Types types = Types::Few;
};

KvCache& add_cache(OperatorBench& bench, const KvCacheParams& params) {
  return bench.add_child<KvCache>("kv_cache", Role::KvCache, params);
}

// Rows in, rows out.
Exercise attention_exercise(Attention& attention, KvCache& cache, std::int64_t hidden) {
  return {.forward = [&attention, hidden](DeviceRun& run) -> std::vector<ParityResult> {
            const TensorView x = run.random_rows(hidden);
            const TensorView y = run.unwritten(hidden);
            attention.forward(x, y, run.pass());
            return {run.download("y", y)};
          },
          .cache = &cache};
}

Exercise build_attention(OperatorBench& bench, const AttentionCase& of) {
  const AttentionParams& params = of.params;
  const std::int64_t q_size = params.num_heads * params.head_dim;
  const std::int64_t kv_size = params.num_key_value_heads * params.head_dim;
  const std::int64_t q_rows = params.output_gate ? 2 * q_size : q_size;
  bench.add_linear("q_proj", {.in_features = of.hidden, .out_features = q_rows, .bias = of.bias});
  bench.add_linear("k_proj", {.in_features = of.hidden, .out_features = kv_size, .bias = of.bias});
  bench.add_linear("v_proj", {.in_features = of.hidden, .out_features = kv_size, .bias = of.bias});
  bench.add_linear("o_proj", {.in_features = q_size, .out_features = of.hidden});
  const bool all = params.qk_norm_all_heads;
  const bool has_norms = params.qk_norm && !of.l2_norm;
  if (has_norms) bench.add_norm("q_norm", all ? q_size : params.head_dim);
  if (has_norms) bench.add_norm("k_norm", all ? kv_size : params.head_dim);
  if (of.l2_norm) {
    bench.add_child<Norm>("qk_norm", Role::Norm,
                          NormParams{.size = params.head_dim, .has_weight = false});
  }
  if (params.sinks) bench.add_vector("sinks", params.num_heads, 2.0F, 0.0F);
  if (of.rotary_dim > 0)
    bench.add_child<Rope>("rotary_emb", Role::Rope, parity_rope(of.rotary_dim, false));
  KvCache& cache =
      add_cache(bench, {.key_size = kv_size, .value_size = kv_size, .head_size = params.head_dim});
  return attention_exercise(bench.add_subject<Attention>(Role::Attention, params), cache,
                            of.hidden);
}

Exercise build_mla(OperatorBench& bench, const MlaCase& of) {
  const MlaParams& params = of.params;
  const std::int64_t q_size =
      params.num_heads * (params.qk_nope_head_dim + params.qk_rope_head_dim);
  const std::int64_t row_size = params.kv_lora_rank + params.qk_rope_head_dim;
  if (params.q_lora_rank == 0) {
    bench.add_linear("q_proj", {.in_features = of.hidden, .out_features = q_size});
  } else {
    bench.add_linear("q_a_proj", {.in_features = of.hidden, .out_features = params.q_lora_rank});
    bench.add_norm("q_a_layernorm", params.q_lora_rank);
    bench.add_linear("q_b_proj", {.in_features = params.q_lora_rank, .out_features = q_size});
  }
  bench.add_linear("kv_a_proj_with_mqa", {.in_features = of.hidden, .out_features = row_size});
  bench.add_norm("kv_a_layernorm", params.kv_lora_rank);
  bench.add_matrix("kv_b_proj.weight",
                   params.num_heads * (params.qk_nope_head_dim + params.v_head_dim),
                   params.kv_lora_rank);
  bench.add_linear(
      "o_proj", {.in_features = params.num_heads * params.v_head_dim, .out_features = of.hidden});
  bench.add_child<Rope>("rotary_emb", Role::Rope, parity_rope(params.qk_rope_head_dim, true));
  KvCache& cache = add_cache(bench, {.key_size = row_size});
  return attention_exercise(bench.add_subject<Attention>(Role::Attention, params), cache,
                            of.hidden);
}

// All keys or values of the batch's sequences: [contexts, cols].
template <class Read>
ParityResult read_back(const std::string& name, const Batch& batch, std::int64_t cols, Read read) {
  ParityResult result = {.name = name, .cols = cols, .values = {}};
  for (const SequenceSlice& sequence : batch.unpadded_sequences()) {
    Floats rows(static_cast<std::size_t>(sequence.context_len * cols));
    read(sequence, rows.data());
    result.values.insert(result.values.end(), rows.begin(), rows.end());
  }
  return result;
}

// Saves the first block of the first sequence, loads it into another block, and copies that one.
ParityResult read_moved(KvCache& cache, const Batch& batch, std::int64_t cols) {
  constexpr std::int64_t kSpare = kParityBlocks;  // this block and the next are in no block table
  ParityResult result = {.name = "keys of a moved block", .cols = cols, .values = {}};
  if (batch.sequences.empty()) return result;
  SequenceSlice slice = batch.sequences.front();
  std::vector<std::byte> bytes(cache.bytes_per_block());
  cache.save_block(slice.block_table.front(), bytes);
  cache.load_block(kSpare, bytes);
  cache.copy_block(kSpare, kSpare + 1);
  slice.block_table = {static_cast<std::int32_t>(kSpare + 1)};
  const std::int64_t count = std::min(slice.context_len, cache.block_tokens());
  result.values.resize(static_cast<std::size_t>(count * cols));
  cache.read_keys(slice, {.begin = 0, .end = count, .num_cols = cols}, result.values.data());
  return result;
}

// Reads all keys, the second head of the values, and a moved block.
Exercise build_kv_cache(OperatorBench& bench, const KvCacheParams& params) {
  auto& cache = bench.add_subject<KvCache>(Role::KvCache, params);
  const auto forward = [&cache, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView keys = run.random_rows(params.key_size);
    const TensorView values =
        params.value_size == 0 ? TensorView{} : run.random_rows(params.value_size);
    cache.write(keys, values, run.pass());
    run.download("keys", keys);  // waits for the device, whose memory is read below
    std::vector<ParityResult> results = {
        read_back("keys", run.batch(), params.key_size,
                  [&](const SequenceSlice& sequence, float* out) {
                    cache.read_keys(
                        sequence, {.end = sequence.context_len, .num_cols = params.key_size}, out);
                  }),
        read_moved(cache, run.batch(), params.key_size)};
    if (params.value_size == 0) return results;
    const std::int64_t head = params.head_size;
    results.push_back(
        read_back("values", run.batch(), head, [&](const SequenceSlice& sequence, float* out) {
          cache.read_values(
              sequence, {.end = sequence.context_len, .first_col = head, .num_cols = head}, out);
        }));
    return results;
  };
  return {.forward = forward, .cache = &cache};
}

ParityCase kv_cache_case(const std::string& dtype, const KvCacheParams& params, double tolerance) {
  const bool is_common = dtype == "f32" || dtype == "f16";
  return {.name = str(dtype, ", ", params.key_size, "+", params.value_size),
          .role = Role::KvCache,
          .params = params,
          .build = [params](OperatorBench& bench) { return build_kv_cache(bench, params); },
          .tolerance = {tolerance, tolerance, tolerance, tolerance},
          .types = Types::F32,
          .kwargs = {{{"dtype", dtype}}},
          .may_reject = !is_common};
}

AttentionParams gqa(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
  return {.num_heads = heads,
          .num_key_value_heads = kv_heads,
          .head_dim = head_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

AttentionParams with_sinks(AttentionParams params) {
  params.sinks = true;
  return params;
}

AttentionParams with(AttentionParams params, bool qk_norm, std::int64_t window) {
  params.qk_norm = qk_norm;
  params.sliding_window = window;
  return params;
}

AttentionParams with_chunks(AttentionParams params) {
  params.chunk = kWindow;
  return params;
}

AttentionParams with_temperature(AttentionParams params) {
  params.temperature_floor = 8;
  params.temperature_scale = 0.1F;
  return params;
}

AttentionParams with_row_norms(AttentionParams params) {
  params.qk_norm = true;
  params.qk_norm_all_heads = true;
  return params;
}

AttentionParams with_output_gate(AttentionParams params) {
  params.output_gate = true;
  return params;
}

}  // namespace

std::vector<ParityCase> kv_cache_cases() {
  struct CacheType {
    const char* dtype;
    // Relative to the max value of a row. Q4_0 has the levels -8 to 7 times a scale: values of the
    // opposite sign of the max are clipped at 7/8 of it or below.
    double tolerance;
  };
  std::vector<ParityCase> cases;
  for (const KvCacheParams& params :
       {KvCacheParams{.key_size = 128, .value_size = 128, .head_size = 64},
        KvCacheParams{.key_size = 96}}) {
    for (const auto& [dtype, tolerance] : {CacheType{"f32", 0},
                                           {"f16", 0x1p-11},
                                           {"bf16", 0x1p-8},
                                           {"fp8", 0x1p-4},
                                           {"q8_0", 0x1p-7},
                                           {"q4_0", 0.15}})
      cases.push_back(kv_cache_case(dtype, params, tolerance));
  }
  return cases;
}

std::vector<ParityCase> attention_cases() {
  const AttentionParams four = gqa(4, 2, 64);
  const std::vector<AttentionCase> kinds = {
      {"plain", four, 256, 64, false, 256, Types::Every},
      {"with bias and a window", with(four, false, kWindow), 256, 64, true, 256, Types::Few},
      {"with norms", with(four, true, 0), 256, 64, false, 256, Types::Few},
      {"with norms and a window", with(four, true, kWindow), 256, 32, false, 256, Types::Few},
      {"with norms over all heads", with_row_norms(four), 256, 32, false, 256, Types::Few},
      {"with an output gate", with_output_gate(with(four, true, 0)), 256, 32, false, 256,
       Types::Few},
      {"with sinks", with_sinks(four), 256, 64, false, 256, Types::Few},
      {"with sinks and a window", with_sinks(with(four, false, kWindow)), 256, 64, true, 256,
       Types::Few},
      {"9 heads of 32 with sinks", with_sinks(gqa(9, 3, 32)), 288, 32, false, 32, Types::Few},
      {"9 heads of 32", with(gqa(9, 3, 32), true, 0), 288, 32, false, 32, Types::Few},
      {"within chunks, with an L2 norm", with_chunks(with(four, true, 0)), 256, 64, false, 256,
       Types::Few, true},
      {"scaled by the position", with_temperature(four), 256, 0, false, 256, Types::Few},
      {"without positions", gqa(2, 2, 128), 256, 0, false, 256, Types::Few}};
  std::vector<ParityCase> cases;
  for (const AttentionCase& kind : kinds) {
    cases.push_back({.name = kind.name,
                     .role = Role::Attention,
                     .params = kind.params,
                     .build = [kind](OperatorBench& bench) { return build_attention(bench, kind); },
                     .tolerance = {kF32Chain, kF16Cache, kHalfChain, kInt8Chain},
                     .block = kind.block,
                     .types = kind.types});
  }
  return cases;
}

std::vector<ParityCase> mla_cases() {
  const MlaParams four = {.num_heads = 4,
                          .q_lora_rank = 0,
                          .kv_lora_rank = 256,
                          .qk_nope_head_dim = 32,
                          .qk_rope_head_dim = 32,
                          .v_head_dim = 64,
                          .scale = 0.125F};
  MlaParams with_rank = four;
  with_rank.q_lora_rank = 256;
  const MlaParams odd = {.num_heads = 3,
                         .q_lora_rank = 96,
                         .kv_lora_rank = 64,
                         .qk_nope_head_dim = 32,
                         .qk_rope_head_dim = 16,
                         .v_head_dim = 96,
                         .scale = 0.15F};
  const std::vector<MlaCase> kinds = {{"latent, q_proj", four, 256, 256, Types::Every},
                                      {"latent, q_lora_rank 256", with_rank, 256, 256, Types::Few},
                                      {"latent, 3 heads of 96", odd, 288, 32, Types::Few}};
  std::vector<ParityCase> cases;
  for (const MlaCase& kind : kinds) {
    cases.push_back({.name = kind.name,
                     .role = Role::Attention,
                     .params = kind.params,
                     .build = [kind](OperatorBench& bench) { return build_mla(bench, kind); },
                     .tolerance = {kF32Chain, kF16Cache, kHalfChain, kInt8Chain},
                     .block = kind.block,
                     .types = kind.types,
                     .kwargs = {{},
                                {{"absorb", "false"}},
                                {{"absorb_for_prefill", "true"}},
                                {{"absorb_for_prefill", "false"}}}});
  }
  return cases;
}

}  // namespace graft::ops::testing
