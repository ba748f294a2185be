#include "graft/kernels/cuda/linear/panels/panel_rows.cuh"

#include <cooperative_groups.h>

#include "graft/base/check.h"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kVectors = 4;
constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kMaxClusterSize = 8;

struct Values {
  ConstRows x;
  __device__ float4 operator()(int row, int col) const {
    return *reinterpret_cast<const float4*>(x.data + row * x.stride + col);
  }
};

struct SiluMul {
  ConstRows gate;
  ConstRows up;
  __device__ float4 operator()(int row, int col) const {
    const auto g = *reinterpret_cast<const float4*>(gate.data + row * gate.stride + col);
    const auto u = *reinterpret_cast<const float4*>(up.data + row * up.stride + col);
    return {swiglu(g.x, u.x), swiglu(g.y, u.y), swiglu(g.z, u.z), swiglu(g.w, u.w)};
  }
};

// The largest value of the thread blocks of a cluster.
__device__ float cluster_max(float value) {
  value = block_max(value);
#if __CUDA_ARCH__ >= 900
  __shared__ float shared_max;
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const unsigned size = cluster.num_blocks();
  if (size == 1) return value;
  if (threadIdx.x == 0) shared_max = value;
  cluster.sync();
  for (unsigned i = 0; i < size; ++i)
    value = fmaxf(value, *cluster.map_shared_rank(&shared_max, i));
  cluster.sync();  // the others have read shared_max
#endif
  return value;
}

// A cluster of thread blocks per row, whose columns they share.
template <class Source>
__global__ void __launch_bounds__(kThreads)
    panel_rows_kernel(Source source, PanelRows out, int cols, int block_cols, int cluster) {
  begin_kernel();
  const int row = static_cast<int>(blockIdx.x) / cluster;
  const int first = static_cast<int>(blockIdx.x) % cluster * block_cols;
  const int end = min(first + block_cols, padded_panel_cols(cols));
  float4 vectors[kVectors];
  GRAFT_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int col = first + 4 * static_cast<int>(threadIdx.x + i * blockDim.x);
    vectors[i] = col < min(end, cols) ? source(row, col) : float4{0, 0, 0, 0};
  }
  store_panel_row(
      out, {.row = row, .first = first, .end = end, .cols = cols}, vectors,
      [&](int col) { return source(row, col); }, cluster_max);
}

template <class Source>
void launch_rows(const char* name,
                 const Source& source,
                 const PanelRows& out,
                 std::int64_t cols,
                 Stream stream) {
  GRAFT_CHECK(cols % 4 == 0, cols, " columns");
  std::int64_t cluster = 1;
  while (cluster < kMaxClusterSize && cluster * kThreads * 4 < cols)
    cluster *= 2;
  const std::int64_t block_cols =
      ceil_div(ceil_div(cols, cluster), kPanelStepCols) * kPanelStepCols;
  launch(name, panel_rows_kernel<Source>,
         {.grid = static_cast<unsigned>(cluster * out.rows),
          .block = kThreads,
          .cluster = static_cast<unsigned>(cluster)},
         stream, source, out, static_cast<int>(cols), static_cast<int>(block_cols),
         static_cast<int>(cluster));
}

std::size_t values_bytes(std::int64_t rows, std::int64_t cols) {
  return aligned_bytes(static_cast<std::size_t>(rows * ceil_div(cols, kPanelStepCols)) *
                       (kPanelRowHalves + kPanelRowSums) * sizeof(Half));
}

}  // namespace

std::size_t panel_rows_bytes(std::int64_t rows, std::int64_t cols) {
  const auto scales = static_cast<std::size_t>(ceil_div(rows, 64) * 64);
  return values_bytes(rows, cols) + aligned_bytes(scales * sizeof(float)) +
         kPanelCounters * sizeof(std::int32_t);
}

PanelRows panel_rows_at(void* memory, std::int64_t rows, std::int64_t cols) {
  auto* bytes = static_cast<std::byte*>(memory);
  return {.values = reinterpret_cast<Half*>(bytes),
          .scales = reinterpret_cast<float*>(bytes + values_bytes(rows, cols)),
          .rows = rows};
}

void to_panel_rows(ConstRows x, const PanelRows& out, std::int64_t cols, Stream stream) {
  GRAFT_CHECK(x.stride % 4 == 0, "stride ", x.stride);
  launch_rows("to_panel_rows", Values{x}, out, cols, stream);
}

void silu_mul_panel_rows(
    ConstRows gate, ConstRows up, const PanelRows& out, std::int64_t cols, Stream stream) {
  launch_rows("silu_mul_panel_rows", SiluMul{gate, up}, out, cols, stream);
}

}  // namespace graft::kernels::cuda
