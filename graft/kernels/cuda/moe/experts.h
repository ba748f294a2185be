// The routed experts of a layer: y = sum over a token's experts of weight * down(silu(gate(x)) *
// up(x)), or with biases and another activation (ExpertEpilogue). Up to kMaxPairwiseTokens tokens:
// one gemv per token-expert pair, all in one launch. More: the pairs are sorted by expert on the
// device, and each expert's rows are multiplied in tiles. In both cases the results of a token are
// summed in the order of its routing list without atomics, so the output is deterministic.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/moe/expert_epilogue.h"

namespace graft::kernels::cuda {

// The matrices of all experts for one projection.
struct ExpertStack {
  Matrix matrix;                 // `rows` is ignored
  std::size_t matrix_bytes = 0;  // from an expert to the next
};

struct ExpertsJob {
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  ExpertStack gate;  // [intermediate, hidden]
  ExpertStack up;    // [intermediate, hidden]
  ExpertStack down;  // [hidden, intermediate]
  // Quantize x to int8 in the gemv kernels where the weight dtype allows it; `arithmetic` is that
  // of the gemm kernels.
  bool use_int8 = true;
  Arithmetic arithmetic = Arithmetic::F16;
  ExpertEpilogue epilogue = {};
};

struct RoutedRows {
  std::int64_t rows = 0;
  ConstRows x;                               // [rows, hidden]
  const Q8Rows* x_q8 = nullptr;              // x quantized to int8; null: quantized here
  const std::int32_t* expert_ids = nullptr;  // [rows, top_k]; negative: none
  // [rows, top_k] experts of the biases, where expert_ids are numbers of slots; null: expert_ids
  const std::int32_t* bias_ids = nullptr;
  const float* weights = nullptr;  // [rows, top_k]
  Rows y;                          // [rows, hidden]
};

// Scratch bytes for up to `rows` rows.
std::size_t experts_bytes(const ExpertsJob& job, std::int64_t rows);
void experts(const ExpertsJob& job, const RoutedRows& routed, void* scratch, Stream stream);

// y[row] = sum over k of weights[row, k] * results[row * top_k + k], in this order; pairs without
// expert are skipped, whatever their results hold. results: [rows * top_k, hidden]
void sum_pairs(const RoutedRows& routed,
               const float* results,
               std::int64_t top_k,
               std::int64_t hidden,
               Stream stream);

// Up to kMaxPairwiseTokens tokens run one gemv per pair; up to kMaxGemvPairsPerExpert pairs per
// expert on average run in gemv tiles of kGemvTileRows rows, more in gemm tiles of kGemmTileRows
// rows, or of kMmaTileRows when the weights are F16 and the GPU has gemm_experts_mma.
inline constexpr std::int64_t kMaxPairwiseTokens = 4;
inline constexpr std::int64_t kMaxGemvPairsPerExpert = 8;

// Token-expert pairs sorted by expert. order[i] is the pair row * top_k + k; the pairs of an expert
// are contiguous and ascending. Unused tiles have count 0.
struct PairGroups {
  std::int32_t* counts = nullptr;  // [num_experts]
  std::int32_t* order = nullptr;   // [num_pairs]
  RowTile* tiles = nullptr;        // [max_row_tiles()]
};
std::int64_t max_row_tiles(std::int64_t num_pairs,
                           std::int64_t num_experts,
                           std::int64_t tile_rows);
// expert_ids[num_pairs]; negative: the pair is dropped.
void group_pairs(const std::int32_t* expert_ids,
                 std::int64_t num_pairs,
                 std::int64_t num_experts,
                 std::int64_t tile_rows,
                 const PairGroups& out,
                 Stream stream);

}  // namespace graft::kernels::cuda
