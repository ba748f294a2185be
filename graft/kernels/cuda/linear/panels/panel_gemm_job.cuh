// What the kernels of panel_gemm() share: the matrices of a launch, and how the sums of thread
// blocks that share the columns become results.

#pragma once

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/linear/panels/panel_gemm.h"
#include "graft/kernels/cuda/linear/panels/panel_step.cuh"

namespace graft::kernels::cuda {

struct PanelGemmMatrix {
  const std::uint8_t* panels = nullptr;
  const float* bias = nullptr;
  Rows y = {};
  int out = 0;
  int end_panel = 0;  // panels of the matrices up to this one
};

struct PanelGemmJob {
  PanelGemmMatrix matrices[kMaxPanelMatrices];
  std::int64_t panel_bytes = 0;
  int num_panels = 0;  // of all matrices
  PanelOrder order = {};
  int slices = 1;  // thread blocks that share the columns
  PanelRows x;
  float* entries = nullptr;                  // with slices > 1: [entry][row][16 num_panels]
  const unsigned char* core_rows = nullptr;  // x for panel_gemm_wgmma(): core_rows.cuh
};

// A slice writes whole quarters or, if there are more slices than quarters, segments.
__host__ __device__ inline int num_panel_entries(int slices) {
  return slices > kPanelQuarters ? slices : kPanelQuarters;
}

// A panel of one of the matrices.
struct PanelOfMatrix {
  int matrix = 0;
  int index = 0;
};

__device__ inline PanelOfMatrix panel_of(const PanelGemmJob& job, int panel) {
  int matrix = 0;
  int first = 0;
  while (panel >= job.matrices[matrix].end_panel)
    first = job.matrices[matrix++].end_panel;
  return {.matrix = matrix, .index = panel - first};
}

__device__ inline const std::uint8_t* panel_data(const PanelGemmJob& job, int panel) {
  const PanelOfMatrix at = panel_of(job, panel);
  return job.matrices[at.matrix].panels + at.index * job.panel_bytes;
}

// y of output o of a panel.
template <DType kType>
class PanelOutput {
 public:
  __device__ PanelOutput(const PanelGemmJob& job, int panel, int o) : scales_(job.x.scales) {
    const PanelOfMatrix at = panel_of(job, panel);
    const PanelGemmMatrix& matrix = job.matrices[at.matrix];
    const int out = at.index * kPanelRows + o;
    if (out >= matrix.out) return;
    y_ = matrix.y.data + out;
    stride_ = matrix.y.stride;
    bias_ = matrix.bias == nullptr ? 0.0F : matrix.bias[out];
  }
  __device__ void write(int row, float total) const {
    if (y_ == nullptr) return;
    const float scale = scales_[row] * PanelSteps<kType>::kUnit;
    y_[row * stride_] = __fmaf_rn(total, scale, bias_);
  }
  // Of an even output and the next one.
  static __device__ void write_pair(const PanelOutput (&outputs)[2],
                                    int row,
                                    float first,
                                    float second) {
    const PanelOutput& even = outputs[0];
    float* to = even.y_ + row * even.stride_;
    if (outputs[1].y_ == nullptr || reinterpret_cast<std::uintptr_t>(to) % sizeof(float2) != 0) {
      even.write(row, first);
      return outputs[1].write(row, second);
    }
    const float scale = even.scales_[row] * PanelSteps<kType>::kUnit;
    *reinterpret_cast<float2*>(to) = make_float2(__fmaf_rn(first, scale, even.bias_),
                                                 __fmaf_rn(second, scale, outputs[1].bias_));
  }

 private:
  const float* scales_;
  float* y_ = nullptr;  // null: the panel has fewer outputs
  std::int64_t stride_ = 0;
  float bias_ = 0.0F;
};

template <DType kType>
__device__ void write_result(const PanelGemmJob& job, int row, int panel, int o, float total) {
  PanelOutput<kType>(job, panel, o).write(row, total);
}

__device__ inline float* entry_at(const PanelGemmJob& job, int entry, int row, int panel, int o) {
  return job.entries +
         ((entry * job.x.rows + row) * job.num_panels + panel) * std::int64_t{kPanelRows} + o;
}

// All threads of a thread block, after it has written its entries. True in the thread block that
// comes last of the slices; it sees the entries of all.
__device__ inline bool is_last_slice(const PanelGemmJob& job, int counter) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int32_t* count = panel_counters(job.x) + counter;
    is_last = atomicAdd(count, 1) == job.slices - 1;
    if (is_last) *count = 0;
  }
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

__device__ inline float sum_entries(const PanelGemmJob& job, int row, int panel, int o) {
  const int in_quarter = num_panel_entries(job.slices) / kPanelQuarters;
  float total = 0.0F;
  for (int i = 0; i < kPanelQuarters; ++i) {
    float quarter = 0.0F;
    for (int j = 0; j < in_quarter; ++j)
      quarter += __ldcg(entry_at(job, i * in_quarter + j, row, panel, o));
    total += quarter;
  }
  return total;
}

// panel_gemm_few.cu: up to kMaxFewRows rows.
inline constexpr int kMaxFewRows = 16;
bool can_use_few(const PanelOrder& order);  // not with very many columns
int few_slices(const PanelOrder& order);
void panel_gemm_few(DType dtype, const PanelGemmJob& job, Stream stream);
std::size_t max_few_shared_bytes();
bool has_few_kernel();

// Estimates of the two kernels for many rows are in us for 4096 columns on an H200.
inline double column_share(const PanelGemmJob& job) {
  return job.order.num_steps * kPanelStepCols / 4096.0;
}

// panel_gemm_wgmma.cu: types of can_use_wgmma(), any number of rows, with job.core_rows.
double wgmma_time(const PanelGemmJob& job);
void panel_gemm_wgmma(DType dtype, const PanelGemmJob& job, Stream stream);

// panel_gemm_wide.cu: any number of rows.
int wide_slices(const PanelGemmJob& job);
double wide_time(const PanelGemmJob& job);
void panel_gemm_wide(DType dtype, const PanelGemmJob& job, Stream stream);
std::size_t max_wide_shared_bytes();

}  // namespace graft::kernels::cuda
