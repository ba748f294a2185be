// Cases of the roles with recurrent states.

#include <cstddef>
#include <cstring>
#include <span>

#include "graft/testing/parity/cases.h"

namespace graft::ops::testing {
namespace {

struct DeltaNetCase {
  std::string name;
  DeltaNetParams params;
  std::int64_t hidden = 0;
  std::int64_t block = 1;
};

// Saves a slot as floats.
ParityResult read_slot(const StateCache& states, std::int64_t slot, const std::string& name) {
  ParityResult result = {.name = name, .cols = 1, .values = {}};
  result.values.resize(states.bytes_per_slot() / sizeof(float));
  states.save_slot(slot, std::as_writable_bytes(std::span(result.values)));
  result.cols = static_cast<std::int64_t>(result.values.size());
  return result;
}

// Loads a slot, copies it to another and saves that one.
Exercise build_state_cache(OperatorBench& bench, const StateCacheParams& params) {
  auto& states = bench.add_subject<StateCache>(Role::StateCache, params);
  const auto forward = [&states, params](DeviceRun& run) -> std::vector<ParityResult> {
    constexpr std::int64_t kSpare = 2 * kParitySequences;
    Floats values(static_cast<std::size_t>(params.recurrent_size + params.conv_size));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i) + static_cast<float>(run.rows());
    states.load_slot(kSpare, std::as_bytes(std::span(values)));
    states.copy_slot(kSpare, kSpare + 1);
    ParityResult moved = read_slot(states, kSpare + 1, "moved slot");
    // One result row per row of the batch.
    ParityResult rows = {.name = moved.name, .cols = moved.cols, .values = {}};
    for (std::int64_t row = 0; row < run.rows(); ++row)
      rows.values.insert(rows.values.end(), moved.values.begin(), moved.values.end());
    return {rows};
  };
  return {.forward = forward, .states = &states};
}

// The states of a sequence and of its checkpoint, as a result with one row per row of the batch.
ParityResult read_states(const StateCache& states, const Batch& batch, bool is_checkpoint) {
  ParityResult result = {.name = is_checkpoint ? "checkpoint" : "state",
                         .cols = static_cast<std::int64_t>(states.bytes_per_slot() / sizeof(float)),
                         .values = {}};
  for (const SequenceSlice& sequence : batch.unpadded_sequences()) {
    const std::int32_t slot =
        is_checkpoint ? sequence.checkpoints.front().slot : sequence.state_slot;
    const ParityResult one = read_slot(states, slot, result.name);
    for (std::int64_t i = 0; i < sequence.num_tokens; ++i)
      result.values.insert(result.values.end(), one.values.begin(), one.values.end());
  }
  // Padding has no states.
  result.values.resize(static_cast<std::size_t>(batch.num_tokens() * result.cols));
  return result;
}

Exercise build_delta_net(OperatorBench& bench, const DeltaNetCase& of) {
  const DeltaNetParams& params = of.params;
  const std::int64_t hidden = of.hidden;
  bench.add_linear("in_proj_qkv", {.in_features = hidden, .out_features = params.conv_channels()});
  bench.add_linear("in_proj_z", {.in_features = hidden, .out_features = params.value_size()});
  bench.add_linear("in_proj_b", {.in_features = hidden, .out_features = params.num_value_heads});
  bench.add_linear("in_proj_a", {.in_features = hidden, .out_features = params.num_value_heads});
  bench.add_linear("out_proj", {.in_features = params.value_size(), .out_features = hidden});
  bench.add_f32_matrix("conv1d.weight", params.conv_channels(), params.conv_kernel);
  bench.add_vector("A_log", params.num_value_heads, 0.4F, -0.5F);
  bench.add_vector("dt_bias", params.num_value_heads, 0.5F, 0.0F);
  bench.add_vector("norm.weight", params.value_head_dim, 0.5F, 1.0F);
  auto& states = bench.add_child<StateCache>(
      "state_cache", Role::StateCache,
      StateCacheParams{
          .recurrent_size = params.num_value_heads * params.key_head_dim * params.value_head_dim,
          .conv_size = (params.conv_kernel - 1) * params.conv_channels()});
  auto& attention = bench.add_subject<Attention>(Role::Attention, params);
  const auto forward = [&attention, &states, hidden](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(hidden);
    const TensorView y = run.unwritten(hidden);
    attention.forward(x, y, run.pass());
    std::vector<ParityResult> results = {run.download("y", y)};
    results.push_back(read_states(states, run.batch(), false));
    results.push_back(read_states(states, run.batch(), true));
    return results;
  };
  return {.forward = forward, .states = &states};
}

}  // namespace

std::vector<ParityCase> state_cache_cases() {
  const StateCacheParams params = {.recurrent_size = 96, .conv_size = 40};
  return {{.name = "state_cache",
           .role = Role::StateCache,
           .params = params,
           .build = [params](OperatorBench& bench) { return build_state_cache(bench, params); },
           .tolerance = kSameBits,
           .types = ParityCase::Types::F32}};
}

std::vector<ParityCase> delta_net_cases() {
  const std::vector<DeltaNetCase> all = {
      {.name = "delta net, two value heads per key head",
       .params = {.num_key_heads = 2,
                  .num_value_heads = 4,
                  .key_head_dim = 32,
                  .value_head_dim = 64,
                  .conv_kernel = 4},
       .hidden = 256,
       .block = 256},
      {.name = "delta net, tiled value heads of odd size",
       .params = {.num_key_heads = 2,
                  .num_value_heads = 6,
                  .key_head_dim = 16,
                  .value_head_dim = 24,
                  .conv_kernel = 3,
                  .tiled_value_heads = true},
       .hidden = 48},
  };
  std::vector<ParityCase> cases;
  for (const DeltaNetCase& one : all) {
    cases.push_back({.name = one.name,
                     .role = Role::Attention,
                     .params = one.params,
                     .build = [one](OperatorBench& bench) { return build_delta_net(bench, one); },
                     .tolerance = {.precise = kF32Chain,
                                   .f32 = kHalfChain,
                                   .half = kHalfChain,
                                   .quantized = kInt8Chain},
                     .block = one.block});
  }
  return cases;
}

}  // namespace graft::ops::testing
