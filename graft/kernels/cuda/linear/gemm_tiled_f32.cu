// GEMM in f32 arithmetic: y[rows, out] = x[rows, in] W[out, in]^T + bias.
//
// Block: 256 threads, 64 rows by 64 outputs, 4 x 4 per thread. Shared memory per step of 32
// columns, both tiles transposed so that a thread reads 4 rows or 4 outputs of one column as a
// float4:
//
//    x_tile   [32 cols][64 rows + 4] f32
//    w_tile   [32 cols][64 outs + 4] f32

#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kTileOuts = 64;
constexpr int kThreadTile = 4;  // rows and outputs per thread
constexpr int kThreadsAcross = kTileOuts / kThreadTile;
// Keeps each group of four 16-byte aligned and spreads the columns over the banks.
constexpr int kPadding = 4;
static_assert(kGemmTileRows / kThreadTile * kThreadsAcross == kGemmThreads);
static_assert(kTileOuts * kRunsPerStep == kGemmThreads);  // a thread loads one run of weights

// sums[4, 4] += x_tile^T w_tile for the thread's rows and outputs, one column after the other.
__device__ void multiply_step(const float (&x)[kTileDepth][kGemmTileRows + kPadding],
                              const float (&w)[kTileDepth][kTileOuts + kPadding],
                              float (&sums)[kThreadTile][kThreadTile]) {
  const auto first_row = static_cast<int>(threadIdx.x) / kThreadsAcross * kThreadTile;
  const auto first_out = static_cast<int>(threadIdx.x) % kThreadsAcross * kThreadTile;
  GRAFT_UNROLL
  for (int k = 0; k < kTileDepth; ++k) {
    const float4 a = *reinterpret_cast<const float4*>(&x[k][first_row]);
    const float4 b = *reinterpret_cast<const float4*>(&w[k][first_out]);
    const float rows[kThreadTile] = {a.x, a.y, a.z, a.w};
    const float outs[kThreadTile] = {b.x, b.y, b.z, b.w};
    GRAFT_UNROLL
    for (int i = 0; i < kThreadTile; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < kThreadTile; ++j)
        sums[i][j] = fmaf(rows[i], outs[j], sums[i][j]);
    }
  }
}

template <class Format>
__global__ void __launch_bounds__(kGemmThreads) gemm_tiled_f32_kernel(GemmJob job) {
  begin_kernel();
  __shared__ __align__(16) float x_tile[kTileDepth][kGemmTileRows + kPadding];
  __shared__ __align__(16) float w_tile[kTileDepth][kTileOuts + kPadding];
  const GemmTile tile = gemm_tile(job);
  if (tile.count <= 0) return;
  const std::int64_t first_out = static_cast<std::int64_t>(blockIdx.y) * kTileOuts;
  const auto row = static_cast<int>(threadIdx.x) / kRunsPerStep;
  const auto run = static_cast<int>(threadIdx.x) % kRunsPerStep * kRun;
  const std::int64_t x_row = tile_row(job, tile, row).x;
  float sums[kThreadTile][kThreadTile] = {};
  for (std::int64_t col = 0; col < job.in && tile.matrix >= 0; col += kTileDepth) {
    float x_run[kRun];
    float w_run[kRun];
    load_tile_x(job, tile, x_row, col + run, x_run);
    load_tile_weights<Format>(job, tile, first_out + row, col + run, w_run);
    __syncthreads();  // the previous step is consumed
    GRAFT_UNROLL
    for (int i = 0; i < kRun; ++i) {
      x_tile[run + i][row] = x_run[i];
      w_tile[run + i][row] = w_run[i];
    }
    __syncthreads();
    multiply_step(x_tile, w_tile, sums);
  }
  const auto m = static_cast<int>(threadIdx.x) / kThreadsAcross * kThreadTile;
  const std::int64_t out = first_out + static_cast<int>(threadIdx.x) % kThreadsAcross * kThreadTile;
  GRAFT_UNROLL
  for (int i = 0; i < kThreadTile; ++i) {
    const std::int64_t y_row = tile_row(job, tile, m + i).y;
    GRAFT_UNROLL
    for (int j = 0; j < kThreadTile; ++j) {
      if (y_row < 0 || out + j >= job.out) continue;
      const float bias = job.bias != nullptr ? job.bias[out + j] : 0.0F;
      tile.y[y_row * job.y.stride + out + j] = sums[i][j] + bias;
    }
  }
}

template <class Format>
void launch_f32(const GemmJob& job, dim3 rows_and_products, Stream stream) {
  dim3 grid = rows_and_products;
  grid.y = blocks_for(job.out, kTileOuts);
  launch("gemm_tiled_f32", gemm_tiled_f32_kernel<Format>, {grid, kGemmThreads}, stream, job);
}

template <class Format>
struct GemmLauncher {
  static constexpr GemmLaunch kLaunch = launch_f32<Format>;
};

constexpr auto kLaunches = table_of<GemmLaunch, GemmLauncher>(AllFormats{});

}  // namespace

GemmLaunch gemm_tiled_f32(DType dtype) {
  return kLaunches[static_cast<std::size_t>(dtype)];
}

}  // namespace graft::kernels::cuda
