// Matrix products with weights in the layout of the file. Types with a fused kernel are dequantized
// in registers; others are dequantized a block of rows at a time into the worker's scratch and
// multiplied with all rows of x while the block is in cache. Both give the same bits: the order of
// every dot product depends on its length alone.

#pragma once

#include <array>
#include <cstdint>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {

inline constexpr std::int64_t kMaxRowsPerBlock = 192;

// Rows [begin, begin + count) of a weight as kernel arguments, with FP8 scales.
class StoredBlock {
 public:
  // count is at most kMaxRowsPerBlock.
  StoredBlock(const Weight& weight, std::int64_t begin, std::int64_t count);
  StoredBlock(const StoredBlock&) = delete;
  StoredBlock& operator=(const StoredBlock&) = delete;
  ~StoredBlock() = default;

  const kernels::cpu::StoredRows& rows() const { return rows_; }

 private:
  std::array<const float*, kMaxRowsPerBlock> scales_;
  kernels::cpu::StoredRows rows_;
};

// Weight rows per block, and the floats of scratch per worker.
std::int64_t rows_per_block(const Weight& weight);
std::int64_t scratch_elems(const Weight& weight);

// y[x.rows, count] (row stride `ldy` floats) = x times the weight's rows [begin, begin + count).
// count is at most rows_per_block(weight).
void multiply_block(const Weight& weight,
                    std::int64_t begin,
                    std::int64_t count,
                    kernels::cpu::RowsF32 x,
                    float* y,
                    std::int64_t ldy,
                    float* scratch);

// y[rows, weight.rows()] = x[rows, weight.cols()] * weight^T, parallel over weight rows.
void multiply(const Weight& weight, TensorView x, TensorView y, Pass& pass);

inline kernels::cpu::RowsF32 rows_of(TensorView x) {
  return {.data = x.f32(), .rows = x.rows(), .stride = x.cols()};
}

}  // namespace graft::ops::cpu
