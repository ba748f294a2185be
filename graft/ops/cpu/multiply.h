// Products with encoded weights, for the operators that hold them. Rows of the weight are
// multiplied as they are read where there is a kernel for it; else they are decoded a block at a
// time into a worker's scratch and multiplied with all rows of x while they are in the cache.
// Either way every value of y is the same dot product, whose order its length alone decides.

#pragma once

#include <array>
#include <cstdint>

#include "graft/kernels/cpu/math.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {

inline constexpr std::int64_t kMaxRowsPerBlock = 192;

// Some rows of a weight as the kernels take them, with the scales of FP8.
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

// Rows multiplied at a time, and the floats of scratch they take.
std::int64_t rows_per_block(const Weight& weight);
std::int64_t scratch_elems(const Weight& weight);

// y[x.rows, count] (rows `ldy` floats apart) = x times the weight's rows [begin, begin + count).
// count is at most rows_per_block(weight).
void multiply_block(const Weight& weight,
                    std::int64_t begin,
                    std::int64_t count,
                    kernels::cpu::RowsF32 x,
                    float* y,
                    std::int64_t ldy,
                    float* scratch);

// y[rows, weight.rows()] = x[rows, weight.cols()] * weight^T, on all threads of the pass.
void multiply(const Weight& weight, TensorView x, TensorView y, Pass& pass);

// All rows of a matrix.
inline kernels::cpu::RowsF32 rows_of(TensorView x) {
  return {.data = x.f32(), .rows = x.rows(), .stride = x.cols()};
}

}  // namespace graft::ops::cpu
