// Rows of x in F16, in the order in which the lanes of mma.m16n8k16 read them beside a panel. 128
// columns are one step, of which a lane reads 16 bytes at a time.
//
//     values  [step][row][q 0..3][t 0..3][8]
//
// Lane t of a quad has block t (32 columns) of the step; at q ^ (row % 2) it reads columns 4 i .. 4
// i + 3 and 4 i + 16 .. 4 i + 19 of the block, i = (q + t) % 4, each in the order of HalfQuad
// (panel_halves.cuh). Columns beyond the last are zeros. Neighbouring rows differ in q, so that
// they are in different banks of shared memory.

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
std::size_t panel_rows_bytes(std::int64_t rows, std::int64_t cols);
PanelRows panel_rows_at(void* memory, std::int64_t rows, std::int64_t cols);

// cols is a multiple of 4; x is 16-byte aligned, its stride a multiple of 4.
void to_panel_rows(ConstRows x, const PanelRows& out, std::int64_t cols, Stream stream);

// silu_mul() of elementwise.h as panel rows: same bits as silu_mul() followed by to_panel_rows().
void silu_mul_panel_rows(
    ConstRows gate, ConstRows up, const PanelRows& out, std::int64_t cols, Stream stream);

}  // namespace graft::kernels::cuda
