// GEMM on tensor cores: y[rows, out] f32 = x[rows, in] W[out, in]^T + bias, with x as F16 rows with
// row scales (F16Rows) and weights converted to F16; f32 accumulation.
//
// Block: 8 warps, 64 rows by 128 outputs; warp (r, c) of 2 x 4 computes 32 x 32 as 2 x 2 WMMA
// products of 16 x 16 x 16. Shared memory per step of 32 columns; the sums reuse it at the end:
//
//    x_tile    [64 rows][32 cols + 8] F16
//    w_tile    [128 outs][32 cols + 8] F16
//    results   [64 rows][128 outs + 4] f32, over the same memory

#include <mma.h>

#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

// Code below sm_70 has no WMMA and leaves these functions unused.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

// Tensor cores exist from sm_70 on; code for older GPUs is empty and not called.
constexpr int kFirstCapability = 70;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
#define GRAFT_HAS_WMMA 1
#else
#define GRAFT_HAS_WMMA 0
#endif

constexpr int kTileOuts = 128;                  // outputs per block
constexpr int kMmaSize = 16;                    // m, n and k of a WMMA product
constexpr int kWarpsAcross = 4;                 // 2 x 4 warps, each 32 rows by 32 outputs
constexpr int kFragments = 2;                   // 16 x 16 fragments per warp in each direction
constexpr int kOperandStride = kTileDepth + 8;  // padded: rows start on different banks
constexpr int kResultStride = kTileOuts + 4;
constexpr int kRunsOfWeights = kTileOuts * kRunsPerStep / kGemmThreads;
static_assert(kGemmThreads / kWarpSize == kGemmTileRows / (kFragments * kMmaSize) * kWarpsAcross);

// Operands and results share the memory.
constexpr std::size_t kOperandBytes = (kGemmTileRows + kTileOuts) * kOperandStride * sizeof(Half);
constexpr std::size_t kResultBytes = kGemmTileRows * kResultStride * sizeof(float);
constexpr std::size_t kSharedBytes = kOperandBytes > kResultBytes ? kOperandBytes : kResultBytes;

// 8 F16 values of a row of x; zeros past its end and for null.
__device__ uint4 load_f16_run(const GemmJob& job, const Half* row, std::int64_t col) {
  if (row == nullptr || col >= job.in) return make_uint4(0, 0, 0, 0);
  if (job.x_vectors) return *reinterpret_cast<const uint4*>(row + col);
  std::uint32_t words[kRun / 2];
  GRAFT_UNROLL
  for (int i = 0; i < kRun / 2; ++i) {
    const std::int64_t at = col + 2 * i;
    const std::uint32_t low = at < job.in ? row[at] : 0;
    const std::uint32_t high = at + 1 < job.in ? row[at + 1] : 0;
    words[i] = low | high << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ void store_aligned(uint4 run, Half* to) {
  *reinterpret_cast<uint4*>(to) = run;
}

// What a thread loads for one step: one run of x and kRunsOfWeights runs of weights.
struct StepRuns {
  uint4 x;
  float weights[kRunsOfWeights][kRun];
};

template <class Format>
__device__ void load_step(const GemmJob& job,
                          const GemmTile& tile,
                          const Half* x_row,
                          std::int64_t first_out,
                          std::int64_t col,
                          StepRuns& runs) {
  runs.x = load_f16_run(job, x_row, col);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const std::int64_t out = first_out + (threadIdx.x + i * kGemmThreads) / kRunsPerStep;
    load_tile_weights<Format>(job, tile, out, col, runs.weights[i]);
  }
}

__device__ void store_step(const StepRuns& runs, Half* x_tile, Half* w_tile) {
  const auto row = static_cast<int>(threadIdx.x) / kRunsPerStep;
  const auto run = static_cast<int>(threadIdx.x) % kRunsPerStep * kRun;
  store_aligned(runs.x, x_tile + row * kOperandStride + run);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const int out = row + i * (kGemmThreads / kRunsPerStep);
    store_aligned(half_run(runs.weights[i]), w_tile + out * kOperandStride + run);
  }
}

// Row of F16Rows that row m of the tile reads; -1 past its end.
__device__ std::int64_t f16_row(const GemmJob& job, const GemmTile& tile, int m) {
  const std::int64_t row = tile_row(job, tile, m).x;
  return row < 0 ? -1 : tile.x_product * job.f16_rows_per_product + row * job.f16.row_stride;
}

#if GRAFT_HAS_WMMA
namespace wmma = nvcuda::wmma;
using Sums = wmma::fragment<wmma::accumulator, kMmaSize, kMmaSize, kMmaSize, float>;

__device__ void multiply_step(const Half* x_tile,
                              const Half* w_tile,
                              Sums (&sums)[kFragments][kFragments]) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto* x = reinterpret_cast<const __half*>(x_tile) +
                  warp / kWarpsAcross * kFragments * kMmaSize * kOperandStride;
  const auto* w = reinterpret_cast<const __half*>(w_tile) +
                  warp % kWarpsAcross * kFragments * kMmaSize * kOperandStride;
  GRAFT_UNROLL
  for (int k = 0; k < kTileDepth; k += kMmaSize) {
    wmma::fragment<wmma::matrix_a, kMmaSize, kMmaSize, kMmaSize, __half, wmma::row_major>
        a[kFragments];
    wmma::fragment<wmma::matrix_b, kMmaSize, kMmaSize, kMmaSize, __half, wmma::col_major>
        b[kFragments];
    GRAFT_UNROLL
    for (int i = 0; i < kFragments; ++i) {
      wmma::load_matrix_sync(a[i], x + i * kMmaSize * kOperandStride + k, kOperandStride);
      wmma::load_matrix_sync(b[i], w + i * kMmaSize * kOperandStride + k, kOperandStride);
    }
    GRAFT_UNROLL
    for (int i = 0; i < kFragments; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < kFragments; ++j)
        wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
    }
  }
}

__device__ void store_sums(const Sums (&sums)[kFragments][kFragments], float* results) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  GRAFT_UNROLL
  for (int i = 0; i < kFragments; ++i) {
    GRAFT_UNROLL
    for (int j = 0; j < kFragments; ++j) {
      const int row = (warp / kWarpsAcross * kFragments + i) * kMmaSize;
      const int out = (warp % kWarpsAcross * kFragments + j) * kMmaSize;
      wmma::store_matrix_sync(results + row * kResultStride + out, sums[i][j], kResultStride,
                              wmma::mem_row_major);
    }
  }
}
#endif

template <class Format>
__global__ void __launch_bounds__(kGemmThreads) gemm_tiled_f16_kernel(GemmJob job) {
  begin_kernel();
#if GRAFT_HAS_WMMA
  __shared__ __align__(128) unsigned char memory[kSharedBytes];
  auto* x_tile = reinterpret_cast<Half*>(memory);
  Half* w_tile = x_tile + kGemmTileRows * kOperandStride;
  auto* results = reinterpret_cast<float*>(memory);
  const GemmTile tile = gemm_tile(job);
  if (tile.count <= 0) return;
  const std::int64_t first_out = static_cast<std::int64_t>(blockIdx.y) * kTileOuts;
  const std::int64_t row = f16_row(job, tile, static_cast<int>(threadIdx.x) / kRunsPerStep);
  const Half* x_row = row < 0 ? nullptr : job.f16.values + row * job.in;
  const std::int64_t run = threadIdx.x % kRunsPerStep * kRun;
  Sums sums[kFragments][kFragments];
  GRAFT_UNROLL
  for (int i = 0; i < kFragments * kFragments; ++i)
    wmma::fill_fragment(sums[i / kFragments][i % kFragments], 0.0F);
  const std::int64_t in = tile.matrix >= 0 ? job.in : 0;
  StepRuns runs;
  if (in > 0) load_step<Format>(job, tile, x_row, first_out, run, runs);
  for (std::int64_t col = 0; col < in; col += kTileDepth) {
    __syncthreads();  // the previous step is consumed
    store_step(runs, x_tile, w_tile);
    __syncthreads();
    // Loads of the next step overlap with the products of this one.
    if (col + kTileDepth < in) {
      load_step<Format>(job, tile, x_row, first_out, col + kTileDepth + run, runs);
    }
    multiply_step(x_tile, w_tile, sums);
  }
  __syncthreads();
  store_sums(sums, results);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kGemmTileRows * kTileOuts; i += kGemmThreads) {
    const std::int64_t y_row = tile_row(job, tile, i / kTileOuts).y;
    const std::int64_t out = first_out + i % kTileOuts;
    if (y_row < 0 || out >= job.out) continue;
    const float sum = results[i / kTileOuts * kResultStride + i % kTileOuts];
    const float bias = job.bias != nullptr ? job.bias[out] : 0.0F;
    const float scale = job.f16.scales[f16_row(job, tile, i / kTileOuts)];
    tile.y[y_row * job.y.stride + out] = fmaf(sum, scale, bias);
  }
#else
  __trap();
#endif
}

template <class Format>
void launch_f16(const GemmJob& job, dim3 rows_and_products, Stream stream) {
  dim3 grid = rows_and_products;
  grid.y = blocks_for(job.out, kTileOuts);
  launch("gemm_tiled_f16", gemm_tiled_f16_kernel<Format>, {grid, kGemmThreads}, stream, job);
}

template <class Format>
struct GemmLauncher {
  static constexpr GemmLaunch kLaunch = launch_f16<Format>;
};

constexpr auto kLaunches = table_of<GemmLaunch, GemmLauncher>(AllFormats{});

}  // namespace

GemmLaunch gemm_tiled_f16(DType dtype) {
  return kLaunches[static_cast<std::size_t>(dtype)];
}

bool has_gemm_f16() {
  return is_compiled_for(kFirstCapability, gemm_tiled_f16_kernel<FormatF16>);
}

}  // namespace graft::kernels::cuda
