// y[rows, out] = x[rows, in] W[out, in]^T + bias for weights in panels, the packed layout of the
// CPU (graft/packing/panel_layout.h), on tensor cores: the codes of a panel are dequantized to F16
// in registers, in the order in which they lie. For 1 to some hundred rows, where reading the
// weights takes the time.
//
// A row's bits do not depend on the other rows: the summation order depends only on `in` and on the
// outputs of the launch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/kernels/cuda/formats/pack_panels.h"
#include "graft/kernels/cuda/linear/panel_rows.h"
#include "graft/kernels/cuda/stream.h"

namespace graft::kernels::cuda {

// Whether the current device and this build have panel_gemm(): sm_90 and its shared memory.
bool has_panel_gemm();

struct PanelMatrix {
  const std::byte* panels = nullptr;
  std::int64_t out = 0;
  const float* bias = nullptr;  // [out]; null: none
  Rows y = {};                  // [rows, out]
};
inline constexpr std::size_t kMaxPanelMatrices = 4;
// Up to kMaxPanelMatrices matrices of one type with has_panels() and of equal `in`, times all rows
// of x.
void panel_gemm(DType dtype,
                std::int64_t in,
                std::span<const PanelMatrix> matrices,
                const PanelRows& x,
                Stream stream);

}  // namespace graft::kernels::cuda
