// Weight matrices in the order of the fast kernels (graft/kernels/cpu/packed.h), and rows of x
// rounded for them. What has no packed form is multiplied as the file stores it (multiply_cpu.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cpu/packed.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"

namespace graft::ops {

// Whether a weight can be packed: by its type and the kernels of this processor, and by the shape
// of the scales that stand beside it.
bool can_pack(const Weight& weight);

// One matrix, or a part of memory that several share. Cheap to copy.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  bool empty() const { return data_ == nullptr; }
  std::size_t bytes() const;

  // y[num_rows, count] (rows `ldy` floats apart) = rounded rows, at most cpu::kMostRows, times the
  // matrix's rows [begin, begin + count). begin is a multiple of 16, and count is too unless the
  // matrix ends there.
  void multiply(std::int64_t begin,
                std::int64_t count,
                const std::byte* rounded,
                std::int64_t num_rows,
                float* y,
                std::int64_t ldy) const;

 private:
  friend std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider);

  DType dtype_ = DType::F32;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const Buffer> owner_;
};

// Packs weights into memory of their own, on all threads; the file's pages may go then.
std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider);

// Rows of x as the kernel of a type reads them.
class RoundedRows {
 public:
  RoundedRows(DType dtype, std::int64_t cols, std::int64_t num_rows, Workspace& workspace);

  // Rows that stand side by side. What goes to a kernel together is whole tiles from a first row
  // on; the last one may be shorter.
  static std::int64_t tile_rows();
  // A tile, at rows [first, first + count).
  void round(std::int64_t first, const float* const* rows, std::int64_t count) const;
  const std::byte* from(std::int64_t first) const { return bytes_ + first * row_bytes_; }

 private:
  DType dtype_;
  std::int64_t cols_;
  std::int64_t row_bytes_;
  std::byte* bytes_;
};

// What one thread rounds sooner than it could ask the others for help.
inline constexpr std::int64_t kElemsAlone = 32768;
// Pieces of work per thread: threads that are held up leave theirs to the others.
inline constexpr std::int64_t kItemsPerThread = 8;
// Two panels, as the kernels take them.
inline constexpr std::int64_t kOutputStep = 2 * cpu::kPanelRows;

// y[rows, matrix.rows()] = x[rows, matrix.cols()] * matrix^T, on all threads of the pass.
void multiply(const PackedMatrix& matrix, TensorView x, TensorView y, Pass& pass);

}  // namespace graft::ops
