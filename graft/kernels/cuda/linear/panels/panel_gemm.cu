#include "graft/kernels/cuda/linear/panels/panel_gemm.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm_job.cuh"
#include "graft/kernels/cuda/linear/panels/panel_wgmma.cuh"

namespace graft::kernels::cuda {
namespace {

bool uses_few(const PanelOrder& order, std::int64_t rows) {
  return rows <= kMaxFewRows && can_use_few(order);
}

bool uses_wgmma(DType dtype, const PanelGemmJob& job) {
  return !uses_few(job.order, job.x.rows) && can_use_wgmma(dtype) &&
         wgmma_time(job) < wide_time(job);
}

PanelGemmJob job_of(std::int64_t in, std::span<const PanelMatrix> matrices, const PanelRows& x) {
  PanelGemmJob job;
  job.order = panel_order(in);
  job.x = x;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    job.num_panels += static_cast<int>(ceil_div(matrices[i].out, kPanelRows));
    job.matrices[i] = {.panels = reinterpret_cast<const std::uint8_t*>(matrices[i].panels),
                       .bias = matrices[i].bias,
                       .y = matrices[i].y,
                       .out = static_cast<int>(matrices[i].out),
                       .end_panel = job.num_panels};
  }
  job.slices = uses_few(job.order, x.rows) ? few_slices(job.order) : wide_slices(job);
  return job;
}

std::size_t entries_bytes(const PanelGemmJob& job) {
  if (job.slices == 1) return 0;
  return static_cast<std::size_t>(num_panel_entries(job.slices) * job.x.rows) *
         static_cast<std::size_t>(job.num_panels * kPanelRows) * sizeof(float);
}

}  // namespace

bool has_panel_gemm() {
  constexpr std::size_t kStatic = 1024;  // barriers
  return has_few_kernel() &&
         max_shared_bytes() >= std::max(max_few_shared_bytes(), max_wide_shared_bytes()) + kStatic;
}

std::size_t panel_gemm_bytes(DType dtype,
                             std::int64_t in,
                             std::span<const PanelMatrix> matrices,
                             const PanelRows& x) {
  const PanelGemmJob job = job_of(in, matrices, x);
  return uses_wgmma(dtype, job) ? core_rows_bytes(x.rows, in) : entries_bytes(job);
}

void panel_gemm(DType dtype,
                std::int64_t in,
                std::span<const PanelMatrix> matrices,
                const PanelRows& x,
                void* scratch,
                Stream stream) {
  GRAFT_CHECK(has_panels(dtype), "no panels of ", name(dtype), " on a GPU");
  GRAFT_CHECK(matrices.size() <= kMaxPanelMatrices, matrices.size(), " matrices");
  const PackedFormat format = packing::packed_format(dtype);
  GRAFT_CHECK(in % packing::chunk_cols(format) == 0, in, " columns of ", name(dtype));
  PanelGemmJob job = job_of(in, matrices, x);
  if (job.num_panels == 0 || x.rows == 0) return;
  job.panel_bytes = packing::panel_bytes(format, in);
  if (uses_wgmma(dtype, job)) {
    to_core_rows(x, in, scratch, stream);
    job.core_rows = static_cast<const unsigned char*>(scratch);
    return panel_gemm_wgmma(dtype, job, stream);
  }
  job.entries = static_cast<float*>(scratch);
  if (uses_few(job.order, x.rows))
    panel_gemm_few(dtype, job, stream);
  else
    panel_gemm_wide(dtype, job, stream);
}

}  // namespace graft::kernels::cuda
