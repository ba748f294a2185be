// The routed experts of a layer: y = sum over a token's experts of weight * down(silu(gate(x)) *
// up(x)). Few tokens: every pair of token and expert is a product of its own, all in one launch.
// Many: pairs are sorted by expert on the device, and the rows of an expert are multiplied in
// tiles. Either way the results of a token are added in the order of its routing list, without
// atomic sums, so the same input gives the same bits.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/linear/linear.h"

namespace graft::kernels::cuda {

// The matrices of all experts for one projection.
struct ExpertStack {
  Matrix matrix;                 // `rows` is not looked at
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
  // Whether few rows are rounded to bytes where the type allows it, and how many are multiplied.
  bool whole_numbers = true;
  Arithmetic arithmetic = Arithmetic::F16;
};

struct RoutedRows {
  std::int64_t rows = 0;
  ConstRows x;                               // [rows, hidden]
  const Q8Rows* x_bytes = nullptr;           // the same rounded; null: this is to be done
  const std::int32_t* expert_ids = nullptr;  // [rows, top_k]; negative: none
  const float* weights = nullptr;            // [rows, top_k]
  Rows y;                                    // [rows, hidden]
};

// For so many rows or fewer.
std::size_t experts_bytes(const ExpertsJob& job, std::int64_t rows);
void experts(const ExpertsJob& job, const RoutedRows& routed, void* scratch, Stream stream);

// Up to here rows go pair by pair; up to so many pairs for each expert on average, in groups of
// kGemvTileRows.
inline constexpr std::int64_t kFewTokens = 4;
inline constexpr std::int64_t kFewPairsPerExpert = 8;

// The pairs of a pass by expert. order[place] is a pair, row * top_k + k; those of an expert stand
// together in ascending order. Tiles that are not needed have count 0.
struct PairGroups {
  std::int32_t* counts = nullptr;  // [num_experts]
  std::int32_t* order = nullptr;   // [pairs]
  RowTile* tiles = nullptr;        // [max_row_tiles()]
};
std::int64_t max_row_tiles(std::int64_t num_pairs,
                           std::int64_t num_experts,
                           std::int64_t tile_rows);
void group_pairs(const std::int32_t* expert_ids,
                 std::int64_t num_pairs,
                 std::int64_t num_experts,
                 std::int64_t tile_rows,
                 const PairGroups& out,
                 Stream stream);

}  // namespace graft::kernels::cuda
