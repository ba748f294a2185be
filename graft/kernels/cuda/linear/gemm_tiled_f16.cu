#include <mma.h>

#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

// Code for GPUs without these instructions uses none of the functions below.
#pragma nv_diag_suppress 177

namespace graft::kernels::cuda {
namespace {

// There are tensor cores from sm_70 on. Code for older GPUs is empty, and not called.
constexpr int kFirstCapability = 70;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
#define GRAFT_HAS_WMMA 1
#else
#define GRAFT_HAS_WMMA 0
#endif

constexpr int kOuts = 128;
constexpr int kSide = 16;              // of the pieces that a warp multiplies at a time
constexpr int kWarpsAcross = 4;        // 2 x 4 warps, each 32 rows by 32 outputs
constexpr int kPieces = 2;             // 32 = 2 pieces
constexpr int kLine = kTileDepth + 8;  // values of a row in shared memory: rows on different banks
constexpr int kResultLine = kOuts + 4;
constexpr int kRunsOfWeights = kOuts * kRunsPerStep / kTileThreads;
static_assert(kTileThreads / kWarpSize == kTileRows / (kPieces * kSide) * kWarpsAcross);

// The operands of a step; later, in the same memory, the results.
constexpr std::size_t kOperandBytes = (kTileRows + kOuts) * kLine * sizeof(Half);
constexpr std::size_t kResultBytes = kTileRows * kResultLine * sizeof(float);
constexpr std::size_t kSharedBytes = kOperandBytes > kResultBytes ? kOperandBytes : kResultBytes;

// Eight values of a row of x; zeros past its end and for no row.
__device__ uint4 load_half_run(const TiledJob& job, const Half* row, std::int64_t col) {
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

// What a thread brings in for one step.
struct StepRuns {
  uint4 x;
  float weights[kRunsOfWeights][kRun];
};

template <class Format>
__device__ void load_step(const TiledJob& job,
                          const TilePlace& place,
                          const Half* x_row,
                          std::int64_t first_out,
                          std::int64_t col,
                          StepRuns& runs) {
  runs.x = load_half_run(job, x_row, col);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const std::int64_t out = first_out + (threadIdx.x + i * kTileThreads) / kRunsPerStep;
    load_tile_weights<Format>(job, place, out, col, runs.weights[i]);
  }
}

__device__ void store_step(const StepRuns& runs, Half* x_tile, Half* w_tile) {
  const auto row = static_cast<int>(threadIdx.x) / kRunsPerStep;
  const auto run = static_cast<int>(threadIdx.x) % kRunsPerStep * kRun;
  store_aligned(runs.x, x_tile + row * kLine + run);
  GRAFT_UNROLL
  for (int i = 0; i < kRunsOfWeights; ++i) {
    const int out = row + i * (kTileThreads / kRunsPerStep);
    store_aligned(half_run(runs.weights[i]), w_tile + out * kLine + run);
  }
}

// Row of HalfRows that row `m` of the tile is; -1: none.
__device__ std::int64_t half_row(const TiledJob& job, const TilePlace& place, int m) {
  const std::int64_t row = tile_row(job, place, m).x;
  return row < 0 ? -1 : place.x_product * job.half_rows_per_product + row * job.half.row_step;
}

#if GRAFT_HAS_WMMA
namespace wmma = nvcuda::wmma;
using Sums = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;

__device__ void multiply_step(const Half* x_tile,
                              const Half* w_tile,
                              Sums (&sums)[kPieces][kPieces]) {
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const auto* x =
      reinterpret_cast<const __half*>(x_tile) + warp / kWarpsAcross * kPieces * kSide * kLine;
  const auto* w =
      reinterpret_cast<const __half*>(w_tile) + warp % kWarpsAcross * kPieces * kSide * kLine;
  GRAFT_UNROLL
  for (int k = 0; k < kTileDepth; k += kSide) {
    wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, __half, wmma::row_major> a[kPieces];
    wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, __half, wmma::col_major> b[kPieces];
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
  const auto warp = static_cast<int>(threadIdx.x) / kWarpSize;
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
__global__ void __launch_bounds__(kTileThreads) linear_tiled_f16_kernel(TiledJob job) {
#if GRAFT_HAS_WMMA
  __shared__ __align__(128) unsigned char memory[kSharedBytes];
  auto* x_tile = reinterpret_cast<Half*>(memory);
  Half* w_tile = x_tile + kTileRows * kLine;
  auto* results = reinterpret_cast<float*>(memory);
  const TilePlace place = tile_place(job);
  if (place.count <= 0) return;
  const std::int64_t first_out = static_cast<std::int64_t>(blockIdx.y) * kOuts;
  const std::int64_t row = half_row(job, place, static_cast<int>(threadIdx.x) / kRunsPerStep);
  const Half* x_row = row < 0 ? nullptr : job.half.values + row * job.in;
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
    const float sum = results[i / kOuts * kResultLine + i % kOuts];
    const float bias = job.bias != nullptr ? job.bias[out] : 0.0F;
    const float scale = job.half.scales[half_row(job, place, i / kOuts)];
    place.y[y_row * job.y.stride + out] = fmaf(sum, scale, bias);
  }
#else
  __trap();
#endif
}

template <class Format>
void launch_f16(const TiledJob& job, dim3 rows_and_products, Stream stream) {
  dim3 grid = rows_and_products;
  grid.y = blocks_for(job.out, kOuts);
  launch("linear_tiled_f16", linear_tiled_f16_kernel<Format>, {grid, kTileThreads}, stream, job);
}

template <class Format>
struct TiledF16 {
  static constexpr TiledLaunch kLaunch = launch_f16<Format>;
};

constexpr auto kTiled = table_of<TiledLaunch, TiledF16>(AllFormats{});

}  // namespace

TiledLaunch tiled_f16(DType dtype) {
  return kTiled[static_cast<std::size_t>(dtype)];
}

bool has_linear_f16() {
  return is_compiled_for(kFirstCapability, linear_tiled_f16_kernel<FormatF16>);
}

}  // namespace graft::kernels::cuda
