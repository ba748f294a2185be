#include <mma.h>

#include "graft/kernels/cuda/linear_tiled.cuh"

// Code for GPUs without these instructions uses none of the functions below.
#pragma nv_diag_suppress 177

namespace graft::cuda {
namespace {

// Tensor cores multiply bfloat16 from sm_80 on. Code for older ones is empty, and not called.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define GRAFT_HAS_BF16_MMA 1
#else
#define GRAFT_HAS_BF16_MMA 0
#endif

constexpr int kOuts = 128;
constexpr int kSide = 16;              // of the pieces that a warp multiplies at a time
constexpr int kWarpsAcross = 4;        // 2 x 4 warps, each 32 rows by 32 outputs
constexpr int kPieces = 2;             // 32 = 2 pieces
constexpr int kLine = kTileDepth + 8;  // values of a row in shared memory: rows on different banks
constexpr int kResultLine = kOuts + 4;
constexpr int kRunsOfWeights = kOuts * kRunsPerStep / kTileThreads;
static_assert(kTileThreads / kWarp == kTileRows / (kPieces * kSide) * kWarpsAcross);

// The operands of a step; later, in the same memory, the results.
constexpr std::size_t kOperandBytes = (kTileRows + kOuts) * kLine * sizeof(Bf16);
constexpr std::size_t kResultBytes = kTileRows * kResultLine * sizeof(float);
constexpr std::size_t kSharedBytes = kOperandBytes > kResultBytes ? kOperandBytes : kResultBytes;

__device__ std::uint32_t bf16_pair(float low, float high) {
  return to_bf16(low) | static_cast<std::uint32_t>(to_bf16(high)) << 16;
}

__device__ void store_bf16(const float (&run)[kRun], Bf16* to) {
  *reinterpret_cast<uint4*>(to) = make_uint4(bf16_pair(run[0], run[1]), bf16_pair(run[2], run[3]),
                                             bf16_pair(run[4], run[5]), bf16_pair(run[6], run[7]));
}

// What a thread brings in for one step.
struct StepRuns {
  float x[kRun];
  float weights[kRunsOfWeights][kRun];
};

template <class Format>
__device__ void load_step(const TiledJob& job,
                          const TilePlace& place,
                          std::int64_t x_row,
                          std::int64_t first_out,
                          std::int64_t col,
                          StepRuns& runs) {
  load_tile_x(job, place, x_row, col, runs.x);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const std::int64_t out = first_out + (threadIdx.x + i * kTileThreads) / kRunsPerStep;
    load_tile_weights<Format>(job, place, out, col, runs.weights[i]);
  }
}

__device__ void store_step(const StepRuns& runs, Bf16* x_tile, Bf16* w_tile) {
  const auto row = static_cast<int>(threadIdx.x) / kRunsPerStep;
  const auto run = static_cast<int>(threadIdx.x) % kRunsPerStep * kRun;
  store_bf16(runs.x, x_tile + row * kLine + run);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const int out = row + i * (kTileThreads / kRunsPerStep);
    store_bf16(runs.weights[i], w_tile + out * kLine + run);
  }
}

#if GRAFT_HAS_BF16_MMA
namespace wmma = nvcuda::wmma;
using Sums = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;

__device__ void multiply_step(const Bf16* x_tile,
                              const Bf16* w_tile,
                              Sums (&sums)[kPieces][kPieces]) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto* x = reinterpret_cast<const __nv_bfloat16*>(x_tile) +
                  warp / kWarpsAcross * kPieces * kSide * kLine;
  const auto* w = reinterpret_cast<const __nv_bfloat16*>(w_tile) +
                  warp % kWarpsAcross * kPieces * kSide * kLine;
  GRAFT_UNROLL
  for (int k = 0; k < kTileDepth; k += kSide) {
    wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, __nv_bfloat16, wmma::row_major> a[kPieces];
    wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, __nv_bfloat16, wmma::col_major> b[kPieces];
    GRAFT_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      wmma::load_matrix_sync(a[i], x + i * kSide * kLine + k, kLine);
      wmma::load_matrix_sync(b[i], w + i * kSide * kLine + k, kLine);
    }
    GRAFT_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < kPieces; ++j)
        wmma::mma_sync(sums[i][j], a[i], b[j], sums[i][j]);
    }
  }
}

__device__ void store_sums(const Sums (&sums)[kPieces][kPieces], float* results) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarp;
  GRAFT_UNROLL
  for (int i = 0; i < kPieces; ++i) {
    GRAFT_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      const int row = (warp / kWarpsAcross * kPieces + i) * kSide;
      const int out = (warp % kWarpsAcross * kPieces + j) * kSide;
      wmma::store_matrix_sync(results + row * kResultLine + out, sums[i][j], kResultLine,
                              wmma::mem_row_major);
    }
  }
}
#endif

template <class Format>
__global__ void __launch_bounds__(kTileThreads) linear_tiled_bf16_kernel(TiledJob job) {
#if GRAFT_HAS_BF16_MMA
  __shared__ __align__(128) unsigned char memory[kSharedBytes];
  auto* x_tile = reinterpret_cast<Bf16*>(memory);
  Bf16* w_tile = x_tile + kTileRows * kLine;
  auto* results = reinterpret_cast<float*>(memory);
  const TilePlace place = tile_place(job);
  if (place.count <= 0) return;
  const std::int64_t first_out = static_cast<std::int64_t>(blockIdx.y) * kOuts;
  const std::int64_t x_row = tile_row(job, place, static_cast<int>(threadIdx.x) / kRunsPerStep).x;
  const std::int64_t run = threadIdx.x % kRunsPerStep * kRun;
  Sums sums[kPieces][kPieces];
  GRAFT_UNROLL
  for (int i = 0; i < kPieces * kPieces; ++i)
    wmma::fill_fragment(sums[i / kPieces][i % kPieces], 0.0F);
  const std::int64_t in = place.matrix >= 0 ? job.in : 0;
  StepRuns runs;
  if (in > 0) load_step<Format>(job, place, x_row, first_out, run, runs);
  for (std::int64_t col = 0; col < in; col += kTileDepth) {
    __syncthreads();  // the step before has been multiplied
    store_step(runs, x_tile, w_tile);
    __syncthreads();
    // The next step's loads run beside this one's products.
    if (col + kTileDepth < in) {
      load_step<Format>(job, place, x_row, first_out, col + kTileDepth + run, runs);
    }
    multiply_step(x_tile, w_tile, sums);
  }
  __syncthreads();
  store_sums(sums, results);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kOuts; i += kTileThreads) {
    const std::int64_t y_row = tile_row(job, place, i / kOuts).y;
    const std::int64_t out = first_out + i % kOuts;
    if (y_row < 0 || out >= job.out) continue;
    const float bias = job.bias != nullptr ? job.bias[out] : 0.0F;
    place.y[y_row * job.y.stride + out] = results[i / kOuts * kResultLine + i % kOuts] + bias;
  }
#else
  __trap();
#endif
}

template <class Format>
void launch_bf16(const TiledJob& job, dim3 rows_and_products, Stream stream) {
  dim3 grid = rows_and_products;
  grid.y = blocks_for(job.out, kOuts);
  launch("linear_tiled_bf16", linear_tiled_bf16_kernel<Format>, {grid, kTileThreads}, stream, job);
}

template <class Format>
struct TiledBf16 {
  static constexpr TiledLaunch kLaunch = launch_bf16<Format>;
};

constexpr auto kTiled = table_of<TiledLaunch, TiledBf16>(AllFormats{});

}  // namespace

TiledLaunch tiled_bf16(DType dtype) {
  return kTiled[static_cast<std::size_t>(dtype)];
}

bool has_tiled_bf16() {
  return is_compiled_for(80, linear_tiled_bf16_kernel<FormatBF16>);
}

}  // namespace graft::cuda
