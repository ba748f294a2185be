// Products with packed weights (graft/packing/panel_layout.h): packing a Weight, quantizing rows of
// x for the kernels, and multiplying on all threads. Weights without a packed layout are multiplied
// as the checkpoint stores them (multiply.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graft/kernels/cpu/packed/packed.h"
#include "graft/ops/params.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"
#include "graft/packing/packed_matrix.h"

namespace graft::ops::cpu {

using packing::PackedMatrix;

// Whether this CPU has a kernel for the type, and `cols` is a multiple of its chunk.
bool can_pack(DType dtype, std::int64_t cols);
// The same of a weight; the shape of its FP8 scales must fit the panels too.
bool can_pack(const Weight& weight);

// Packs weights with the provider's packer, which is not null, and releases them. can_pack() holds
// for each.
std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider);

// y[num_rows, count] (rows `ldy` floats apart) = quantized rows of x, at most
// kernels::cpu::kMaxGemmRows, times rows [begin, begin + count) of the matrix. begin is a multiple
// of 16, and so is count unless the range ends at the matrix's last row.
void multiply_range(const PackedMatrix& matrix,
                    std::int64_t begin,
                    std::int64_t count,
                    const std::byte* quantized,
                    std::int64_t num_rows,
                    float* y,
                    std::int64_t ldy);

// Rows of x quantized for the kernel of a weight type: int8 with scales, or bf16
// (quantized_row_bytes() in packed.h of the kernels).
class QuantizedRows {
 public:
  QuantizedRows() = default;
  QuantizedRows(DType dtype, std::int64_t cols, std::int64_t num_rows, Workspace& workspace);

  DType dtype() const { return dtype_; }
  // Rows per tile. A call of a kernel reads consecutive tiles; only its last one may be partial.
  static std::int64_t tile_rows();
  // Quantizes one tile, rows [first, first + count).
  void quantize(std::int64_t first, const float* const* rows, std::int64_t count) const;
  const std::byte* from(std::int64_t first) const { return bytes_ + first * row_bytes_; }

 private:
  DType dtype_ = DType::F32;
  std::int64_t cols_ = 0;
  std::int64_t row_bytes_ = 0;
  std::byte* bytes_ = nullptr;
};

// Up to this many elements one thread quantizes faster than it wakes the others.
inline constexpr std::int64_t kMaxElemsPerThread = 32768;
// Loop items per thread: idle threads steal the items of delayed ones.
inline constexpr std::int64_t kItemsPerThread = 8;
// Outputs per step of a loop: two panels, as the kernels multiply them.
inline constexpr std::int64_t kOutputStep = packing::kSliceRows;

// Max products of one call of multiply().
inline constexpr std::size_t kMaxProducts = 4;

struct PackedProduct {
  const PackedMatrix* matrix = nullptr;
  TensorView y;  // [rows of x, matrix->rows()]
};

// y = x * matrix^T for each product, in one loop on all threads of the pass; x is quantized once
// per weight type.
void multiply(TensorView x, std::span<const PackedProduct> products, Pass& pass);
// Two products of the same shape, then gate.y = function(gate.y) * up.y while both are in the
// caches.
void multiply_gated(TensorView x,
                    const PackedProduct& gate,
                    const PackedProduct& up,
                    MlpParams::Gate function,
                    Pass& pass);

}  // namespace graft::ops::cpu
