// Experts with many rows, types with super-blocks, with wgmma (panel_wgmma.cuh). The two panels of
// a warp are those of gate and up with the same outputs, or neighbours of one matrix. Two warps
// gather the rows of x.
//
//     thread block   256 outputs, or 128 of gate and of up; one tile of up to 64 or 32 rows
//     grid           [groups of panels, tiles]

#include <array>

#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_wgmma.cuh"
#include "graft/kernels/cuda/moe/panel_experts_job.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kGatherThreads = 2 * kWarpSize;
constexpr int kMaxTileRows = 64;

__device__ void copy_piece(std::uint32_t to, const unsigned char* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// The barrier counts this thread when its copies up to here have arrived.
__device__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// The rows of a tile.
struct TileRows {
  int pairs[kMaxTileRows];
  int rows[kMaxTileRows];  // of x
  float scales[kMaxTileRows];
};

// kGatherThreads threads: consecutive ones copy pieces of eight rows to a core.
template <class S>
__device__ void gather_x(const ExpertsProduct& job,
                         const TileRows& tile,
                         int count,
                         int num_steps,
                         int thread,
                         WgmmaRing<S::kSteps>& ring,
                         unsigned char* memory) {
  const std::uint32_t to = shared_address(memory + S::kChunks * S::kChunkBytes);
  const int num_groups = (count + kCoreRows - 1) / kCoreRows;
  for (int k = 0; k < num_steps; ++k) {
    ring.wait_empty(k);
    const unsigned char* step = job.row_pieces + k * job.x.rows * (kRowPieces * kPieceBytes);
    const std::uint32_t buffer = to + k % S::kSteps * S::kStepBytes;
    for (int i = thread; i < num_groups * kCoreRows * kRowPieces; i += kGatherThreads) {
      const int core = i / kCoreRows;
      const int row = core / kRowPieces * kCoreRows + i % kCoreRows;
      if (row >= count) continue;
      copy_piece(
          buffer + i * kPieceBytes,
          step + (std::int64_t{tile.rows[row]} * kRowPieces + core % kRowPieces) * kPieceBytes);
    }
    arrive_after_copies(ring.full_barrier(k));
  }
}

// Writes y of a thread's outputs. totals: [sum][thread]
template <class S, int kMatrices>
__device__ void write_tile(const ExpertsProduct& job,
                           const ExpertsTile& tile,
                           const TileRows& rows,
                           const float* totals) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  constexpr int kResults = kWgmmaWarpPanels / kMatrices;  // panels of y
  GRAFT_UNROLL
  for (int p = 0; p < kResults; ++p) {
    const int panel = (static_cast<int>(blockIdx.x) * kResults + p) * kWgmmaWarps + warp;
    const int out = panel * kPanelRows + lane / 4 * 2;
    if (out >= job.out) continue;
    for (int i = 0; i < S::kSums; i += 4) {
      for (int r = 0; r < 2; ++r) {
        const int row = i / 4 * kCoreRows + lane % 4 * 2 + r;
        if (row >= tile.count) continue;
        const float scale = rows.scales[row] * PanelSteps<S::kType>::kUnit;
        float* y = job.y + std::int64_t{rows.pairs[row]} * job.out + out;
        GRAFT_UNROLL
        for (int o = 0; o < 2; ++o) {
          if (out + o >= job.out) continue;
          float values[kMatrices];
          GRAFT_UNROLL
          for (int m = 0; m < kMatrices; ++m)
            values[m] = totals[((p + m) * S::kSums + i + 2 * o + r) * kWgmmaSumThreads];
          y[o] = expert_output<S::kType>(job, tile, rows.pairs[row], out + o, scale, values);
        }
      }
    }
  }
}

template <class S, int kMatrices>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    panel_experts_wgmma_kernel(const __grid_constant__ ExpertsProduct job) {
  begin_kernel();
#if GRAFT_HAS_WGMMA
  using Steps = typename S::Steps;
  using Chunks = ExpertsChunks<S::kType>;
  __shared__ WgmmaRings<S> rings;
  __shared__ TileRows rows;
  const ExpertsTile tile = tile_of(job);
  if (tile.count == 0) return;
  auto* memory = dynamic_shared<unsigned char>();
  auto* totals =
      reinterpret_cast<float*>(memory + S::kChunks * S::kChunkBytes + S::kSteps * S::kStepBytes) +
      threadIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int num_chunks = Chunks::count(job);
  if (static_cast<int>(threadIdx.x) < tile.count) {
    const int pair = pair_of(job, tile, static_cast<int>(threadIdx.x));
    rows.pairs[threadIdx.x] = pair;
    rows.rows[threadIdx.x] = pair / job.products_per_x;
    rows.scales[threadIdx.x] = job.x.scales[pair / job.products_per_x];
  }
  if (threadIdx.x == kWgmmaSumThreads) {
    rings.chunks.init(1);
    rings.steps.init(kGatherThreads);
    publish_barriers();
  }
  __syncthreads();
  if (warp >= kWgmmaWarps) {
    leave_registers<kWgmmaCopyRegisters>();
    const int thread = static_cast<int>(threadIdx.x) - kWgmmaSumThreads;
    if (thread < kWarpSize) {
      // Panels beyond the last are computed from the last and not written.
      const int index = thread % kWgmmaPanels;
      const bool is_second = kMatrices == 2 && index >= kWgmmaWarps;
      const int panel = static_cast<int>(blockIdx.x) * (kWgmmaPanels / kMatrices) +
                        (kMatrices == 2 ? index % kWgmmaWarps : index);
      copy_panels<S>(expert_panel(job, tile, is_second, min(panel, (job.out - 1) / kPanelRows)),
                     rings.chunks, memory, 0, num_chunks);
    } else if (thread < kWarpSize + kGatherThreads) {
      gather_x<S>(job, rows, tile.count, num_chunks * Steps::kChunkSteps, thread - kWarpSize,
                  rings.steps, memory);
    }
  } else {
    take_registers<kWgmmaSumRegisters>();
    WgmmaSums<S> sums;
    for (int quarter = 0; quarter < kPanelQuarters; ++quarter) {
      float added[kWgmmaWarpPanels][S::kSums];
      GRAFT_UNROLL
      for (int i = 0; i < S::kLaneSums; ++i)
        added[i / S::kSums][i % S::kSums] = 0.0F;
      for (int k = Chunks::first(job, quarter); k < Chunks::first(job, quarter + 1); ++k)
        sums.add_piece(rings, memory, k * Steps::kChunkSteps, Steps::kChunkSteps, warp, added);
      GRAFT_UNROLL
      for (int i = 0; i < S::kLaneSums; ++i) {
        const float before = quarter == 0 ? 0.0F : totals[i * kWgmmaSumThreads];
        totals[i * kWgmmaSumThreads] = before + added[i / S::kSums][i % S::kSums];
      }
    }
    write_tile<S, kMatrices>(job, tile, rows, totals);
  }
#endif
}

using Launch = void (*)(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream);

template <class S, int kMatrices>
void launch_experts_wgmma(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream) {
  constexpr int kOut = kWgmmaPanels / kMatrices * static_cast<int>(kPanelRows);
  launch_with_shared("panel_experts_wgmma", panel_experts_wgmma_kernel<S, kMatrices>,
                     {dim3(blocks_for(job.out, kOut), static_cast<unsigned>(num_tiles)),
                      kWgmmaThreads, S::kSharedBytes},
                     stream, job);
}

using Variants = std::array<std::array<Launch, 2>, 2>;  // by tile_rows and the number of matrices

template <class S>
constexpr std::array<Launch, 2> matrix_variants() {
  return {launch_experts_wgmma<S, 1>, launch_experts_wgmma<S, 2>};
}

constexpr auto kExpertsTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  if constexpr (PanelSteps<kType>::kIsSuper)
    return Variants{matrix_variants<WgmmaShape<kType, kMaxTileRows / 2>>(),
                    matrix_variants<WgmmaShape<kType, kMaxTileRows>>()};
  else
    return Variants{};
});

}  // namespace

void panel_experts_wgmma(
    DType dtype, const ExpertsProduct& job, std::int64_t num_tiles, int tile_rows, Stream stream) {
  kExpertsTable[static_cast<std::size_t>(dtype)][tile_rows == kMaxTileRows ? 1 : 0]
               [job.second == nullptr ? 0 : 1](job, num_tiles, stream);
}

}  // namespace graft::kernels::cuda
