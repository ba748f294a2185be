// Packs rows of weights as stored in files into panels (graft/packing/panel_layout.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/stream.h"
#include "graft/tensor/dtype.h"

namespace graft::kernels::cuda {

// The types that GPUs multiply from panels: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K
// IQ4_NL IQ4_XS MXFP4.
bool has_panels(DType dtype);

// Same bytes as packing::pack_panel(). `stored`: contiguous rows; `panels` is 16-byte aligned.
void pack_panels(DType dtype,
                 const std::byte* stored,
                 std::int64_t rows,
                 std::int64_t cols,
                 std::byte* panels,
                 Stream stream);

}  // namespace graft::kernels::cuda
