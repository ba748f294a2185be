// Converts panels, the packed layout of the CPU kernels (graft/packing/panel_layout.h), to plain
// rows, so that weights packed in host memory can be copied to a GPU and multiplied there.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// Panels of a stack of equal matrices: matrix m begins at
// panels + m * packing::packed_bytes(dtype, rows, cols).
struct PanelStack {
  DType dtype = DType::F32;
  const std::byte* panels = nullptr;  // 4-byte aligned
  std::int64_t num_matrices = 0;      // at most 65535
  std::int64_t rows = 0;              // of one matrix, at most 1048560
  std::int64_t cols = 0;              // a multiple of the chunk of the dtype
};

// Whether panels of this dtype can be unpacked: true for all of packing::kPackedTypes.
bool can_unpack_panels(DType dtype);

// out[num_matrices, rows, cols], 16-byte aligned; padding rows of the last panel are skipped.
// Values are bit-identical to graft/quant/codec.h, times the scale for FP8; F16 weights are rounded
// to bf16 in panels. F16 output is rounded to nearest even; finite values saturate at ±65504.
void unpack_panels(const PanelStack& stack, Half* out, Stream stream);
void unpack_panels(const PanelStack& stack, float* out, Stream stream);

}  // namespace graft::kernels::cuda
