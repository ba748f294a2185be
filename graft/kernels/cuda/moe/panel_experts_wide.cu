// Experts with many rows: a warp multiplies two panels with the up to 32 rows of a tile, which are
// gathered into shared memory for all warps. The two panels are those of gate and up with the same
// outputs, or neighbours of one matrix.
//
//     thread block   4 warps x 2 panels, one tile; two thread blocks per multiprocessor
//     grid           [groups of panels, tiles]

#include <array>

#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_x_ring.cuh"
#include "graft/kernels/cuda/moe/panel_experts_job.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWideWarps = 4;
constexpr int kWideThreads = kWideWarps * kWarpSize;
constexpr int kWideTiles = kWideExpertRows / kPanelTileRows;
constexpr int kWidePanels = 2;  // of a warp
using ExpertRows = PanelXRing<kWideExpertRows, 3, kWideWarps>;

template <DType kType, int kMatrices>
struct WideExperts {
  using Steps = PanelSteps<kType>;
  static constexpr int kDepth = Steps::kIsSuper ? 2 : 3;
  static constexpr int kWarpBytes = kDepth * kWidePanels * Steps::kChunkBytes;
  static constexpr int kRing = kWideWarps * kWarpBytes;
  static constexpr int kOutPanels = kWideWarps * kWidePanels / kMatrices;
  static constexpr int kOut = kOutPanels * kPanelRows;
  static constexpr int kRowStride = kOut + 4;
  static constexpr int kPart = kWideExpertRows * kRowStride;  // of a matrix
  static constexpr int kMain = kRing + ExpertRows::kBytes;
  static constexpr int kParts = kMatrices * kPart * 4;  // in the place of the ring
  static constexpr std::size_t kSharedBytes = kMain > kParts ? kMain : kParts;
};

using LaneSums = float[kWidePanels][kWideTiles][4];

// totals += sums, which become 0.
__device__ void move_sums(LaneSums& sums, LaneSums& totals) {
  GRAFT_UNROLL
  for (int p = 0; p < kWidePanels; ++p) {
    GRAFT_UNROLL
    for (int tile = 0; tile < kWideTiles; ++tile) {
      GRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        totals[p][tile][i] += sums[p][tile][i];
        sums[p][tile][i] = 0.0F;
      }
    }
  }
}

// Exchanges the totals of the warps through shared memory and writes y.
template <DType kType, int kMatrices>
__device__ void write_tile(const ExpertsProduct& job,
                           const ExpertsTile& tile,
                           const LaneSums& totals) {
  using S = WideExperts<kType, kMatrices>;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  auto* parts = dynamic_shared<float>();  // [matrix][row][output]
  GRAFT_UNROLL
  for (int p = 0; p < kWidePanels; ++p) {
    const int panel = kMatrices == 2 ? warp : warp * kWidePanels + p;
    float* part = parts + (kMatrices == 2 ? p * S::kPart : 0) + panel * kPanelRows;
    GRAFT_UNROLL
    for (int i = 0; i < kWideTiles; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int row = i * kPanelTileRows + 2 * t + j % 2;
        part[row * S::kRowStride + 2 * g + j / 2] = totals[p][i][j];
      }
    }
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < tile.count * S::kOut; at += kWideThreads) {
    const int row = at / S::kOut;
    const int out = static_cast<int>(blockIdx.x) * S::kOut + at % S::kOut;
    if (out >= job.out) continue;
    float values[kMatrices];
    GRAFT_UNROLL
    for (int m = 0; m < kMatrices; ++m)
      values[m] = parts[m * S::kPart + row * S::kRowStride + at % S::kOut];
    write_pair<kType>(job, tile, row, out, values);
  }
}

template <DType kType, int kMatrices>
__global__ void __launch_bounds__(kWideThreads, 2)
    panel_experts_wide_kernel(const __grid_constant__ ExpertsProduct job) {
  begin_kernel();
#if __CUDA_ARCH__ >= 900
  using S = WideExperts<kType, kMatrices>;
  using Steps = typename S::Steps;
  using Chunks = ExpertsChunks<kType>;
  __shared__ std::uint64_t barriers[kWideWarps][S::kDepth];
  __shared__ std::uint64_t x_barriers[ExpertRows::kBarriers];
  __shared__ int x_rows[kWideExpertRows];
  const ExpertsTile tile = tile_of(job);
  if (tile.count == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  if (static_cast<int>(threadIdx.x) < kWideExpertRows) {
    const int i = min(static_cast<int>(threadIdx.x), tile.count - 1);
    x_rows[threadIdx.x] = pair_of(job, tile, i) / job.products_per_x;
  }
  const int num_chunks = Chunks::count(job);
  const int num_steps = (job.num_blocks + kPanelStepBlocks - 1) / kPanelStepBlocks;
  auto* memory = dynamic_shared<unsigned char>();
  const ExpertRows x(job.x, memory + S::kRing, x_barriers,
                     {.list = x_rows, .num_rows = tile.count, .end_step = num_steps});
  if (threadIdx.x == 0) x.init();
  CopyRing<S::kDepth> ring(barriers[warp]);
  unsigned char* buffers = memory + warp * S::kWarpBytes;
  // Panels beyond the last are computed from the last and not written.
  const int last_panel = (job.out - 1) / kPanelRows;
  const std::uint8_t* panels[kWidePanels];
  GRAFT_UNROLL
  for (int p = 0; p < kWidePanels; ++p) {
    const int index = kMatrices == 2 ? warp : warp * kWidePanels + p;
    const int panel = min(static_cast<int>(blockIdx.x) * S::kOutPanels + index, last_panel);
    panels[p] = expert_panel(job, tile, kMatrices == 2 && p == 1, panel);
  }
  const auto fill = [&](int k) {
    if (k >= num_chunks) return;
    const std::uint32_t bytes = Chunks::bytes(job, k);
    ring.expect(k, kWidePanels * bytes);
    GRAFT_UNROLL
    for (int p = 0; p < kWidePanels; ++p) {
      ring.fill(k, buffers + (k % S::kDepth * kWidePanels + p) * Steps::kChunkBytes,
                panels[p] + std::int64_t{k} * Steps::kChunkBytes, bytes);
    }
  };
  for (int k = 0; k < S::kDepth; ++k)
    fill(k);
  __syncthreads();
  if (warp == 0) x.begin();
  // Blocks of an odd row of x are exchanged in pairs (PanelRows).
  int is_odd[kWideTiles];
  GRAFT_UNROLL
  for (int i = 0; i < kWideTiles; ++i)
    is_odd[i] = x_rows[i * kPanelTileRows + g] % 2;
  PieceSums<kType, kWidePanels, kWideTiles> piece;
  LaneSums sums = {};
  LaneSums totals = {};
  for (int quarter = 0; quarter < kPanelQuarters; ++quarter) {
    const int end = min(Chunks::first(job, quarter + 1) * Steps::kChunkSteps, num_steps);
    for (int step = Chunks::first(job, quarter) * Steps::kChunkSteps; step < end; ++step) {
      const int k = step / Steps::kChunkSteps;
      ring.wait(k);
      const unsigned char* rows = x.wait(step);
      const unsigned char* chunk = buffers + k % S::kDepth * kWidePanels * Steps::kChunkBytes;
      const PanelStep<kType> steps[kWidePanels] = {
          Chunks::load(job, chunk, step, g, t),
          Chunks::load(job, chunk + Steps::kChunkBytes, step, g, t)};
      const auto x_of = [&](int b, int i) {
        return *reinterpret_cast<const uint4*>(rows + (i * kPanelTileRows + g) * kPanelRowBytes +
                                               (b ^ is_odd[i]) * 64 + t * 16);
      };
      const auto x_sums_of = [&](int i) {
        return *reinterpret_cast<const uint2*>(rows + kWideExpertRows * kPanelRowBytes +
                                               (i * kPanelTileRows + g) * kPanelSumBytes + t * 8);
      };
      const bool is_second = Steps::kIsSuper && step % 2 == 1;
      if (is_second)
        piece.add(steps, 1, t, x_of, x_sums_of);
      else
        piece.add(steps, 0, t, x_of, x_sums_of);
      if (is_second) {
        piece.finish(steps, 2);
        piece.move_to(sums);
      }
      x.release(step, warp == 0);
      if (step % Steps::kChunkSteps == Steps::kChunkSteps - 1) fill(k + S::kDepth);
    }
    if constexpr (!Steps::kIsSuper) piece.move_to(sums);
    move_sums(sums, totals);
  }
  __syncthreads();  // the buffers are not used any more
  write_tile<kType, kMatrices>(job, tile, totals);
#endif
}

using Launch = void (*)(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream);

template <DType kType, int kMatrices>
void launch_wide_experts(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream) {
  using S = WideExperts<kType, kMatrices>;
  launch_with_shared("panel_experts_wide", panel_experts_wide_kernel<kType, kMatrices>,
                     {dim3(blocks_for(job.out, S::kOut), static_cast<unsigned>(num_tiles)),
                      kWideThreads, S::kSharedBytes},
                     stream, job);
}

constexpr auto kWideExpertsTable = panel_type_table<std::array<Launch, 2>>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return std::array<Launch, 2>{launch_wide_experts<kType, 1>, launch_wide_experts<kType, 2>};
});

}  // namespace

void panel_experts_wide(DType dtype,
                        const ExpertsProduct& job,
                        std::int64_t num_tiles,
                        Stream stream) {
  kWideExpertsTable[static_cast<std::size_t>(dtype)][job.second == nullptr ? 0 : 1](job, num_tiles,
                                                                                    stream);
}

}  // namespace graft::kernels::cuda
