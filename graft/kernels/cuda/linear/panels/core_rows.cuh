// Rows of x in the order in which wgmma reads them from shared memory: what PanelRows holds, as
// cores of 8 rows and 8 values (wgmma.cuh).
//
//     [step] [group of 8 rows] { values [16 cores], sums [2 cores] }
//
// Cores 4 b + 2 h and 4 b + 2 h + 1 of block b have the even and the odd columns of half h of its
// 32 columns; of the sums, first the upper halves, then the lower.

#pragma once

#include "graft/kernels/cuda/linear/panels/panel_rows.cuh"
#include "graft/kernels/cuda/wgmma.cuh"

namespace graft::kernels::cuda {

inline constexpr int kCoreRows = 8;
inline constexpr int kCoreValueBytes = 16 * kCoreBytes;
inline constexpr int kCoreGroupBytes = 18 * kCoreBytes;  // a step of a group of rows

__host__ __device__ inline std::int64_t num_core_groups(std::int64_t rows) {
  return (rows + kCoreRows - 1) / kCoreRows;
}

inline std::size_t core_rows_bytes(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(num_core_groups(rows) *
                                  (padded_panel_cols(cols) / kPanelStepCols)) *
         kCoreGroupBytes;
}

// out: core_rows_bytes()
void to_core_rows(const PanelRows& x, std::int64_t cols, void* out, Stream stream);

// The same pieces of 16 bytes, a row's one after another, to gather rows from:
//
//     [step] [row] { values [16 pieces], sums [2 pieces] }
inline constexpr int kRowPieces = kCoreGroupBytes / kCoreBytes;
inline constexpr int kPieceBytes = 16;

inline std::size_t row_pieces_bytes(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * (padded_panel_cols(cols) / kPanelStepCols)) * kRowPieces *
         kPieceBytes;
}

// out: row_pieces_bytes()
void to_row_pieces(const PanelRows& x, std::int64_t cols, void* out, Stream stream);

}  // namespace graft::kernels::cuda
