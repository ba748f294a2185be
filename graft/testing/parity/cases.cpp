// Cases of the roles without a KV cache.

#include "graft/testing/parity/cases.h"

#include <cmath>
#include <cstddef>

namespace graft::ops::testing {
namespace {

using Types = ParityCase::Types;

Exercise build_embedding(OperatorBench& bench, const EmbeddingParams& params) {
  bench.add_matrix("weight", params.vocab_size, params.hidden_size);
  auto& embedding = bench.add_subject<Embedding>(Role::Embedding, params);
  return {.forward = [&embedding, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView y = run.unwritten(params.hidden_size);
    embedding.forward(run.batch().token_ids, y, run.pass());
    return {run.download("y", y)};
  }};
}

// Out of place, in place, and fused with an addition.
Exercise build_norm(OperatorBench& bench, const NormParams& params) {
  bench.add_matrix("weight", 1, params.size);
  auto& norm = bench.add_subject<Norm>(Role::Norm, params);
  return {.forward = [&norm, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(params.size);
    const TensorView y = run.unwritten(params.size);
    norm.forward(x, y, run.pass());
    const TensorView in_place = run.random_rows(params.size);
    norm.forward(in_place, in_place, run.pass());
    const TensorView sum = run.random_rows(params.size);
    const TensorView more = run.random_rows(params.size);
    const TensorView y_of_sum = run.unwritten(params.size);
    norm.forward_add(sum, more, y_of_sum, ActivationFormat::F32, run.pass());
    return {run.download("y", y), run.download("y in place", in_place),
            run.download("x + more", sum), run.download("y of the sum", y_of_sum)};
  }};
}

Exercise build_linear(OperatorBench& bench, const LinearParams& params) {
  bench.add_matrix("weight", params.out_features, params.in_features);
  if (params.bias) bench.add_vector("bias", params.out_features, 0.5F, 0.0F);
  auto& linear = bench.add_subject<Linear>(Role::Linear, params);
  return {.forward = [&linear, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(params.groups * params.in_features);
    const TensorView y = run.unwritten(params.out_features);
    linear.forward(x, y, run.pass());
    return {run.download("y", y)};
  }};
}

// Heads at an offset, with more columns than are rotated.
Exercise build_rope(OperatorBench& bench, const RopeParams& params) {
  auto& rope = bench.add_subject<Rope>(Role::Rope, params);
  const Rope::Heads heads = {.num_heads = 3, .head_dim = params.rotary_dim + 8, .offset = 16};
  return {.forward = [&rope, heads](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(heads.offset + heads.num_heads * heads.head_dim);
    rope.forward(x, heads, run.pass());
    return {run.download("x", x)};
  }};
}

ParityCase rope_case(const std::string& name, const RopeParams& params) {
  return {.name = name,
          .role = Role::Rope,
          .params = params,
          .build = [params](OperatorBench& bench) { return build_rope(bench, params); },
          .tolerance = {.precise = kF32Sum, .f32 = kF32Sum},
          .types = Types::F32};
}

ParityCase linear_case(const std::string& name,
                       const LinearParams& params,
                       std::int64_t block,
                       Types types) {
  return {.name = name,
          .role = Role::Linear,
          .params = params,
          .build = [params](OperatorBench& bench) { return build_linear(bench, params); },
          .tolerance = {kF32Sum, kF32Sum, kHalfRows, kInt8Rows},
          .block = block,
          .types = types};
}

}  // namespace

RopeParams parity_rope(std::int64_t rotary_dim, bool interleaved) {
  RopeParams params;
  params.rotary_dim = rotary_dim;
  params.interleaved = interleaved;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    params.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -exponent)));
  }
  return params;
}

std::vector<ParityCase> embedding_cases() {
  std::vector<ParityCase> cases;
  for (const EmbeddingParams& params :
       {EmbeddingParams{.vocab_size = kParityVocab, .hidden_size = 512},
        EmbeddingParams{.vocab_size = kParityVocab, .hidden_size = 288},
        EmbeddingParams{.vocab_size = kParityVocab, .hidden_size = 512, .scale = 22.627417F}}) {
    const std::int64_t hidden = params.hidden_size;
    const bool is_scaled = params.scale != 1.0F;
    cases.push_back(
        {.name = str(is_scaled ? "scaled rows of " : "rows of ", hidden),
         .role = Role::Embedding,
         .params = params,
         .build = [params](OperatorBench& bench) { return build_embedding(bench, params); },
         .tolerance = kSameBits,
         .block = hidden == 512 ? 256 : 32,
         .types = is_scaled ? Types::Few : Types::Every});
  }
  return cases;
}

std::vector<ParityCase> norm_cases() {
  std::vector<ParityCase> cases;
  for (const std::int64_t size : {512, 288, 75}) {
    const NormParams params = {.size = size, .eps = 1e-5};
    cases.push_back({.name = str("rows of ", size),
                     .role = Role::Norm,
                     .params = params,
                     .build = [params](OperatorBench& bench) { return build_norm(bench, params); },
                     .tolerance = {kF32Sum, kF32Sum, kF32Sum, kF32Sum},
                     .block = size == 512   ? 256
                              : size == 288 ? 32
                                            : 1,
                     .types = Types::Every});
  }
  return cases;
}

std::vector<ParityCase> linear_cases() {
  const LinearParams wide = {.in_features = 512, .out_features = 208};
  const LinearParams odd = {.in_features = 288, .out_features = 75, .bias = true};
  const LinearParams narrow = {.in_features = 256, .out_features = 17};
  const LinearParams grouped = {.in_features = 256, .out_features = 192, .groups = 3};
  const LinearParams odd_groups = {.in_features = 32, .out_features = 14, .groups = 2};
  return {linear_case("3 groups of 256 to 64", grouped, 256, Types::Every),
          linear_case("2 groups of 32 to 7", odd_groups, 32, Types::Few),
          linear_case("512 to 208", wide, 256, Types::Every),
          linear_case("288 to 75 with bias", odd, 32, Types::Every),
          linear_case("256 to 17", narrow, 256, Types::Few)};
}

std::vector<ParityCase> rope_cases() {
  RopeParams yarn = parity_rope(24, true);
  yarn.magnitude = 1.2F;
  RopeParams dynamic = parity_rope(32, false);
  dynamic.dynamic = true;
  dynamic.factor = 4.0;
  dynamic.max_position_embeddings = 20;  // batches have positions up to 70
  return {rope_case("halves", parity_rope(32, false)), rope_case("pairs, YaRN", yarn),
          rope_case("halves, dynamic NTK", dynamic)};
}

}  // namespace graft::ops::testing
