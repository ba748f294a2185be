#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kOuts = 64;
constexpr int kEdge = 4;  // outputs of a thread: kEdge rows by kEdge columns
constexpr int kThreadsAcross = kOuts / kEdge;
constexpr int kPadding =
    4;  // keeps rows of four at multiples of 16 bytes and off each other's banks
static_assert(kTileRows / kEdge * kThreadsAcross == kTileThreads);
static_assert(kOuts * kRunsPerStep == kTileThreads);  // a thread loads one run of weights

__device__ void multiply_step(const float (&x)[kTileDepth][kTileRows + kPadding],
                              const float (&w)[kTileDepth][kOuts + kPadding],
                              float (&sums)[kEdge][kEdge]) {
  const auto first_row = static_cast<int>(threadIdx.x) / kThreadsAcross * kEdge;
  const auto first_out = static_cast<int>(threadIdx.x) % kThreadsAcross * kEdge;
  GRAFT_UNROLL
  for (int k = 0; k < kTileDepth; ++k) {
    const float4 a = *reinterpret_cast<const float4*>(&x[k][first_row]);
    const float4 b = *reinterpret_cast<const float4*>(&w[k][first_out]);
    const float rows[kEdge] = {a.x, a.y, a.z, a.w};
    const float outs[kEdge] = {b.x, b.y, b.z, b.w};
    GRAFT_UNROLL
    for (int i = 0; i < kEdge; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < kEdge; ++j)
        sums[i][j] = fmaf(rows[i], outs[j], sums[i][j]);
    }
  }
}

template <class Format>
__global__ void __launch_bounds__(kTileThreads) linear_tiled_f32_kernel(TiledJob job) {
  __shared__ __align__(16) float x_tile[kTileDepth][kTileRows + kPadding];
  __shared__ __align__(16) float w_tile[kTileDepth][kOuts + kPadding];
  const TilePlace place = tile_place(job);
  if (place.count <= 0) return;
  const std::int64_t first_out = static_cast<std::int64_t>(blockIdx.y) * kOuts;
  const auto row = static_cast<int>(threadIdx.x) / kRunsPerStep;
  const auto run = static_cast<int>(threadIdx.x) % kRunsPerStep * kRun;
  const std::int64_t x_row = tile_row(job, place, row).x;
  float sums[kEdge][kEdge] = {};
  for (std::int64_t col = 0; col < job.in && place.matrix >= 0; col += kTileDepth) {
    float x_run[kRun];
    float w_run[kRun];
    load_tile_x(job, place, x_row, col + run, x_run);
    load_tile_weights<Format>(job, place, first_out + row, col + run, w_run);
    __syncthreads();  // the step before has been multiplied
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      x_tile[run + i][row] = x_run[i];
      w_tile[run + i][row] = w_run[i];
    }
    __syncthreads();
    multiply_step(x_tile, w_tile, sums);
  }
  const auto m = static_cast<int>(threadIdx.x) / kThreadsAcross * kEdge;
  const std::int64_t out = first_out + static_cast<int>(threadIdx.x) % kThreadsAcross * kEdge;
  GRAFT_UNROLL
  for (int i = 0; i < kEdge; ++i) {
    const std::int64_t y_row = tile_row(job, place, m + i).y;
    GRAFT_UNROLL
    for (int j = 0; j < kEdge; ++j) {
      if (y_row < 0 || out + j >= job.out) continue;
      const float bias = job.bias != nullptr ? job.bias[out + j] : 0.0F;
      place.y[y_row * job.y.stride + out + j] = sums[i][j] + bias;
    }
  }
}

template <class Format>
void launch_f32(const TiledJob& job, dim3 rows_and_products, Stream stream) {
  dim3 grid = rows_and_products;
  grid.y = blocks_for(job.out, kOuts);
  launch("linear_tiled_f32", linear_tiled_f32_kernel<Format>, {grid, kTileThreads}, stream, job);
}

template <class Format>
struct TiledF32 {
  static constexpr TiledLaunch kLaunch = launch_f32<Format>;
};

constexpr auto kTiled = table_of<TiledLaunch, TiledF32>(AllFormats{});

}  // namespace

TiledLaunch tiled_f32(DType dtype) {
  return kTiled[static_cast<std::size_t>(dtype)];
}

}  // namespace graft::kernels::cuda
