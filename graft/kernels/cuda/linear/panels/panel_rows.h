// Rows of x in F16, in the order in which the lanes of mma.m16n8k16 read them beside a panel
// (panel_operands.cuh). 128 columns are one step: four blocks of 32, of which a lane reads 16 bytes
// each.
//
//     values  [step] { [row][block 0..3][t 0..3][8], sums [row][t 0..3][4] }
//
// Lane t of a quad has columns 4 t .. 4 t + 3 of a block and, divided by 16, columns 16 + 4 t ..
// 16 + 4 t + 3, each as (0, 2), (1, 3). Columns beyond the last are zeros. Block b of a row is at
// b ^ (row % 2): neighbouring rows are in different banks of shared memory.
//
// The sums of the F16 values of 16 columns, divided by kPanelSumUnit, are two halves each, whose
// sum has twice the bits: lane t has sums 2 t and 2 t + 1, first the upper halves, then the lower.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

struct PanelRows {
  Half* values = nullptr;
  float* scales = nullptr;  // [rows]: value = scale * F16, as in F16Rows
  std::int64_t rows = 0;
};
// Counters behind the scales, zero when the rows are written. Kernels whose thread blocks share an
// output count in them who comes last; that one leaves zeros.
inline constexpr int kPanelCounters = 256;

std::size_t panel_rows_bytes(std::int64_t rows, std::int64_t cols);
PanelRows panel_rows_at(void* memory, std::int64_t rows, std::int64_t cols);

// cols is a multiple of 4; x is 16-byte aligned, its stride a multiple of 4.
void to_panel_rows(ConstRows x, const PanelRows& out, std::int64_t cols, Stream stream);

// silu_mul() of elementwise.h as panel rows: same bits as silu_mul() followed by to_panel_rows().
void silu_mul_panel_rows(
    ConstRows gate, ConstRows up, const PanelRows& out, std::int64_t cols, Stream stream);

}  // namespace graft::kernels::cuda
