// Weight matrices in the order of the fast kernels (graft/kernels/cpu/packed/packed.h), and rows of
// x rounded for them. What has no packed form is multiplied as the file stores it (multiply_cpu.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/kernels/cpu/packed/packed.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"

namespace graft::ops::cpu {

inline constexpr std::uint32_t kPackedLayout = kernels::cpu::kPackedLayout;

// Whether there are panels of that type on any processor.
bool can_pack(DType dtype);
// Whether weights of the type with rows of that length can be packed here, as far as the scales
// that stand beside them allow it.
bool can_pack(DType dtype, std::int64_t cols);
// Whether this weight can be packed here: by its type and the kernels of this processor, and by the
// shape of the scales that stand beside it.
bool can_pack(const Weight& weight);
// What a matrix takes, rows rounded up to whole panels. cols are whole blocks of the type.
std::int64_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols);

// One matrix in memory that several may share. Each memory node has a slice of its rows, and the
// slices that a node has of all of them lie side by side: pages are larger than slices of experts.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  DType dtype() const { return dtype_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  bool empty() const { return slices_.empty(); }
  std::size_t bytes() const;
  // Of 16 rows from `row`, a multiple of 16, on.
  const std::byte* panel(std::int64_t row) const;

  // y[num_rows, count] (rows `ldy` floats apart) = rounded rows, at most kernels::cpu::kMaxRows,
  // times the matrix's rows [begin, begin + count). begin is a multiple of 16, and count is too
  // unless the matrix ends there.
  void multiply(std::int64_t begin,
                std::int64_t count,
                const std::byte* rounded,
                std::int64_t num_rows,
                float* y,
                std::int64_t ldy) const;

 private:
  friend std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider);

  struct Slice {
    std::int64_t begin = 0;  // rows [begin, end)
    std::int64_t end = 0;
    const std::byte* data = nullptr;
  };

  DType dtype_ = DType::F32;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::vector<Slice> slices_;
  std::shared_ptr<const void> owner_;
};

// Packs weights into memory of their own, on all threads, each slice on those that will read it,
// unless the provider has them packed; the file's pages may go then.
std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider);

// Rows of x as the kernel of a type reads them.
class QuantizedRows {
 public:
  QuantizedRows() = default;
  QuantizedRows(DType dtype, std::int64_t cols, std::int64_t num_rows, Workspace& workspace);

  DType dtype() const { return dtype_; }
  // Rows that stand side by side. What goes to a kernel together is whole tiles from a first row
  // on; the last one may be shorter.
  static std::int64_t tile_rows();
  // A tile, at rows [first, first + count).
  void round(std::int64_t first, const float* const* rows, std::int64_t count) const;
  const std::byte* from(std::int64_t first) const { return bytes_ + first * row_bytes_; }

 private:
  DType dtype_ = DType::F32;
  std::int64_t cols_ = 0;
  std::int64_t row_bytes_ = 0;
  std::byte* bytes_ = nullptr;
};

// What one thread rounds sooner than it could ask the others for help.
inline constexpr std::int64_t kElemsAlone = 32768;
// Pieces of work per thread: threads that are held up leave theirs to the others.
inline constexpr std::int64_t kItemsPerThread = 8;
// Two panels, as the kernels take them.
inline constexpr std::int64_t kOutputStep = 2 * kernels::cpu::kPanelRows;

// That go through together.
inline constexpr std::size_t kMaxProducts = 3;

struct PackedProduct {
  const PackedMatrix* matrix = nullptr;
  TensorView y;  // [rows of x, matrix->rows()]
};

// y = x * matrix^T for each of them, in one loop on all threads of the pass: threads meet once, and
// x is rounded once for a type.
void multiply(TensorView x, std::span<const PackedProduct> products, Pass& pass);
// For two of one shape; then gate.y = silu(gate.y) * up.y, while both are in the caches.
void multiply_gated(TensorView x, const PackedProduct& gate, const PackedProduct& up, Pass& pass);

}  // namespace graft::ops::cpu
