// The cases of each role: how to build and run a small module, and the tolerance of its results.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/testing/parity/bench.h"

namespace graft::ops::testing {

// A built module.
struct Exercise {
  std::function<std::vector<ParityResult>(DeviceRun&)> forward;
  KvCache* cache = nullptr;      // null: the module has none
  StateCache* states = nullptr;  // null: the module has none
  KvCache* index_cache = nullptr;
  std::vector<KvCache*> caches = {};  // of modules with more
};

// Max differences from the reference, each relative to the max value of its row.
struct Tolerance {
  double precise = 0;    // with the kwargs for F32 arithmetic
  double f32 = 0;        // without them, F32 weights
  double half = 0;       // without them, F16, BF16 or FP8 weights
  double quantized = 0;  // without them, block-quantized weights
};

// Lookups and copies are bit-identical.
inline constexpr Tolerance kSameBits = {};
// Sums of up to 512 floats in another order: 512 roundings of 2^-24 at worst, 3e-5; in practice
// they cancel.
inline constexpr double kF32Sum = 1e-5;
// Several such sums in sequence, and exponentials of the results.
inline constexpr double kF32Chain = 1e-4;
// Keys and values in an F16 cache: a relative error of 2^-11 each.
inline constexpr double kF16Cache = 2e-3;
// Activations in BF16 or F16: a relative error of at most 2^-9 each.
inline constexpr double kHalfRows = 4e-3;
inline constexpr double kHalfChain = 1e-2;
// Activations in int8, with errors up to 1/254 of the largest of 32: the standard deviation of a
// sum's error is 0.4 % of that of the sums. Of 100 rows of 17 sums some are four such deviations
// off, in rows whose largest value is half the usual one.
inline constexpr double kInt8Rows = 1.5e-2;
inline constexpr double kInt8Chain = 5e-2;

struct ParityCase {
  std::string name;
  Role role = Role::Linear;
  Params params;  // of the operator under test; its `fits` reads them
  std::function<Exercise(OperatorBench&)> build;
  Tolerance tolerance;
  // Weight rows are a multiple of this many values; dtypes with larger blocks are skipped.
  std::int64_t block = 1;
  // Every dtype that the operator accepts, one per kind of arithmetic, or F32 only (no weights).
  enum class Types : std::uint8_t { Every, Few, F32 } types = Types::Few;
  // Each set runs with the operators that support its keys.
  std::vector<Kwargs> kwargs = {{}};
  bool may_reject = false;  // an operator may throw Error for these kwargs
};

std::vector<ParityCase> embedding_cases();
std::vector<ParityCase> norm_cases();
std::vector<ParityCase> linear_cases();
std::vector<ParityCase> rope_cases();
std::vector<ParityCase> kv_cache_cases();
std::vector<ParityCase> state_cache_cases();
std::vector<ParityCase> attention_cases();
std::vector<ParityCase> delta_net_cases();
std::vector<ParityCase> mla_cases();
std::vector<ParityCase> sparse_mla_cases();
std::vector<ParityCase> indexer_cases();
std::vector<ParityCase> compressed_indexer_cases();
std::vector<ParityCase> compressed_attention_cases();
std::vector<ParityCase> compressor_cases();
std::vector<ParityCase> hyper_connection_cases();
std::vector<ParityCase> mlp_cases();
std::vector<ParityCase> router_cases();
std::vector<ParityCase> experts_cases();
std::vector<ParityCase> moe_cases();

// Frequencies of a rotary embedding with theta 10000.
RopeParams parity_rope(std::int64_t rotary_dim, bool interleaved);

}  // namespace graft::ops::testing
