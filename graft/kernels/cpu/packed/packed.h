// GEMV and GEMM of packed weights (graft/packing/panel_layout.h) with float activations in integer
// arithmetic. Activations x are quantized to int8 with a scale per 32 columns. The dot product of a
// group is an exact integer; the groups of an output are added in ascending order, one fused
// multiply-add each. So one row or many, vectors or AMX tiles, AVX2, AVX-512 or NEON give the same
// bits. (The scalar level has no fused multiply-add; its last bits differ.) BF16, F16 and FP8
// weights have kernels where the CPU multiplies bf16: AMX-BF16 (x86/packed-bf16-inl.h) and BF16 of
// ARM64 (arm/packed_bf16.cpp). Their bits differ: the instructions round sums differently.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graft/packing/panel_layout.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cpu {

using packing::block_code_bytes;
using packing::chunk_bytes;
using packing::chunk_cols;
using packing::chunk_header_bytes;
using packing::kBlockCols;
using packing::kPackedTypes;
using packing::kPanelRows;
using packing::packed_format;
using packing::PackedFormat;
using packing::panel_bytes;

// Bytes of one quantized row of x. Rows are stored in tiles of PackedTable::tile_rows rows (the
// last tile has the rest); a tile of R rows is a series of blocks of 32 columns, each
//
//     x[R][32]                 int8, in -127..127
//     scale[R]                 f32, largest magnitude of the block / 127
//     correction[groups][R]    32 / group values per row: for formats with a min the f32
//                              -scale * sum(x of the group), else the int32 -offset * sum(x of the
//                              group) that the integer sums start with (0 at levels that take
//                              codes with offset 128 as signed)
//
// With as_bf16 a block is only x[R][32] in bf16.
constexpr std::int64_t quantized_row_bytes(PackedFormat f, std::int64_t cols) {
  if (f.as_bf16) return 2 * cols;
  return cols / kBlockCols * (kBlockCols + 4 + 4 * (kBlockCols / f.group));
}

struct PackedKernel {
  // Quantizes `num_rows` rows of x, at most one tile, for this format (converts them to bf16 for
  // as_bf16).
  void (*quantize)(const float* const* rows,
                   std::int64_t num_rows,
                   std::int64_t cols,
                   std::byte* quantized) = nullptr;
  // y[r * ldy + c] = dot(row r of x, weight row c), for num_rows <= kMaxGemmRows quantized rows and
  // num_outputs weight rows (the last panel may be partial).
  void (*multiply)(const std::byte* panels,
                   std::int64_t num_outputs,
                   std::int64_t cols,
                   const std::byte* quantized,
                   std::int64_t num_rows,
                   float* y,
                   std::int64_t ldy) = nullptr;
};

// Max rows of x per call of multiply: weights are unpacked once per call.
inline constexpr std::int64_t kMaxGemmRows = 96;

struct PackedTable {
  std::int64_t tile_rows = 0;                         // divides kMaxGemmRows
  std::array<PackedKernel, kNumDTypes> kernels = {};  // null: not supported at this level
};

// Call only levels that the CPU supports; table.h selects one.
namespace scalar {
extern const PackedTable kPacked;
}  // namespace scalar

namespace avx2 {
extern const PackedTable kPacked;
}  // namespace avx2

namespace avx512 {
extern const PackedTable kPacked;
// The same bits with codes unpacked in registers for every row tile instead of once into memory.
// Faster on AMD CPUs, which multiply on two of their four vector units and shift on the other two;
// Intel CPUs share two units for everything.
extern const PackedTable kPackedInPlace;
}  // namespace avx512

namespace amx {
extern const PackedTable kPacked;
}  // namespace amx

namespace neon {
extern const PackedTable kPacked;
}  // namespace neon

namespace dotprod {
extern const PackedTable kPacked;
}  // namespace dotprod

namespace i8mm {
extern const PackedTable kPacked;
}  // namespace i8mm

// BF16, F16 and FP8 weights only; the other types are those of i8mm.
namespace bf16 {
extern const PackedTable kFloats;
}  // namespace bf16

// Tables of one level that this CPU supports, of which table.h uses one: for tests. Empty where
// every level has one table.
std::vector<const PackedTable*> packed_variants();

}  // namespace graft::kernels::cpu
