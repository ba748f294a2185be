// y[rows, out] = x[rows, in] W[out, in]^T + bias for weights in panels, the packed layout of the
// CPU (graft/packing/panel_layout.h), on tensor cores: codes, times the integer scale of their
// group where there is one, enter the products, and other scales are multiplied onto the sums. For
// 1 to some hundred rows.
//
// A row's bits depend neither on the other rows nor on the other matrices of the launch: the order
// of additions depends only on `in` (PanelOrder).

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graft/kernels/cuda/formats/pack_panels.h"
#include "graft/kernels/cuda/linear/panels/panel_rows.h"
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

// Scratch bytes of panel_gemm(): x in another order, or sums of thread blocks that share the
// columns.
std::size_t panel_gemm_bytes(DType dtype,
                             std::int64_t in,
                             std::span<const PanelMatrix> matrices,
                             const PanelRows& x);
// Up to kMaxPanelMatrices matrices of one type with has_panels() and of equal `in`, times all rows
// of x.
void panel_gemm(DType dtype,
                std::int64_t in,
                std::span<const PanelMatrix> matrices,
                const PanelRows& x,
                void* scratch,
                Stream stream);

}  // namespace graft::kernels::cuda
