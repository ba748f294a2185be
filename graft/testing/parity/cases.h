// How each role is exercised: small modules of every kind that the role knows, with how to build
// and run one, and how near the results must be to the reference.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/testing/parity/bench.h"

namespace graft::ops::testing {

// What a built module does with the rows of a pass.
struct Exercise {
  std::function<std::vector<ParityResult>(DeviceRun&)> forward;
  KvCache* cache = nullptr;  // where earlier passes left keys and values; null: there is none
};

// Largest differences to the reference, each relative to the largest value of its row.
struct Tolerance {
  double precise = 0;    // with the kwargs for arithmetic in F32
  double f32 = 0;        // without them, weights in F32
  double half = 0;       // … weights in F16, BF16 or FP8
  double quantized = 0;  // … weights in blocks
};

// Lookups and copies: not a bit differs.
inline constexpr Tolerance kSameBits = {};
// Sums of up to 512 floats in another order: 512 roundings of 2^-24 at worst, 3e-5; in practice
// they cancel.
inline constexpr double kF32Sum = 1e-5;
// Several of them after each other, and exponentials of the results.
inline constexpr double kF32Chain = 1e-4;
// Keys and values in an F16 cache, 2^-11 of each.
inline constexpr double kF16Cache = 2e-3;
// Activations in BF16 or F16, at worst 2^-9 of each.
inline constexpr double kHalfRows = 4e-3;
inline constexpr double kHalfChain = 1e-2;
// Activations in int8, with errors up to 1/254 of the largest of 32: the standard deviation of a
// sum's error is 0.4 % of that of the sums. Of 100 rows of 17 sums some are four such deviations
// off, in rows whose largest value is half the usual one.
inline constexpr double kInt8Rows = 1.5e-2;
inline constexpr double kInt8Chain = 4e-2;

struct ParityCase {
  std::string name;
  Role role = Role::Linear;
  Params params;  // of the operator under test; its `fits` reads them
  std::function<Exercise(OperatorBench&)> build;
  Tolerance tolerance;
  // Rows of all weights are a multiple of it: types of larger blocks cannot be stored in them.
  std::int64_t block = 1;
  // Every type that the operator accepts, or one of each kind of arithmetic. F32 alone where there
  // are no weights.
  enum class Types : std::uint8_t { Every, Few, F32 } types = Types::Few;
  // Tried one after the other by operators that know their keys.
  std::vector<Kwargs> kwargs = {{}};
  bool may_refuse = false;  // an operator may throw Error for these kwargs
};

std::vector<ParityCase> embedding_cases();
std::vector<ParityCase> norm_cases();
std::vector<ParityCase> linear_cases();
std::vector<ParityCase> rope_cases();
std::vector<ParityCase> kv_cache_cases();
std::vector<ParityCase> attention_cases();
std::vector<ParityCase> mla_cases();
std::vector<ParityCase> mlp_cases();
std::vector<ParityCase> router_cases();
std::vector<ParityCase> experts_cases();
std::vector<ParityCase> moe_cases();

// Frequencies of a rotary embedding with theta 10000.
RopeParams parity_rope(std::int64_t rotary_dim, bool interleaved);

}  // namespace graft::ops::testing
