// From 17 rows on, types with super-blocks, with wgmma (panel_wgmma.cuh).
//
//     thread block   2 warpgroups x 2 x 4 panels = 256 outputs, 64 or 32 rows of x
//     cluster        1, or the 4 or 8 slices of the columns, which add their sums at the end
//     grid           [groups of panels x slices, groups of rows]

#include <algorithm>
#include <array>
#include <cmath>

#include "graft/kernels/cuda/cluster.cuh"
#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm_job.cuh"
#include "graft/kernels/cuda/linear/panels/panel_wgmma.cuh"

namespace graft::kernels::cuda {
namespace {

// What a thread block multiplies.
struct WgmmaPart {
  int first_panel;
  int first_group;  // of rows
  int num_groups;
  int first_step;
  int end_step;
};

// One thread copies x.
template <class S>
__device__ void copy_x(const PanelGemmJob& job,
                       const WgmmaPart& part,
                       WgmmaRing<S::kSteps>& ring,
                       unsigned char* memory) {
  const std::int64_t stride = num_core_groups(job.x.rows) * kCoreGroupBytes;
  const unsigned char* from =
      job.core_rows + part.first_step * stride + std::int64_t{part.first_group} * kCoreGroupBytes;
  const std::uint32_t to = shared_address(memory + S::kChunks * S::kChunkBytes);
  const std::uint32_t bytes = part.num_groups * kCoreGroupBytes;
  for (int k = 0; k < part.end_step - part.first_step; ++k, from += stride) {
    ring.wait_empty(k);
    arrive_expecting(ring.full_barrier(k), bytes);
    bulk_copy(to + k % S::kSteps * S::kStepBytes, from, bytes, ring.full_barrier(k));
  }
}

// Writes sums [first, first + kCount) of a lane, whole tiles of 8 rows: those of outputs 2 g and
// 2 g + 1 of its panels. total_of(i): their totals
template <class S, int kCount, class Totals>
__device__ void write_totals(const PanelGemmJob& job,
                             const WgmmaPart& part,
                             int first,
                             const Totals& total_of) {
  static_assert(kCount % 4 == 0);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  GRAFT_UNROLL
  for (int p = 0; p < kWgmmaWarpPanels; ++p) {
    const int panel = part.first_panel + p * kWgmmaWarps + warp;
    if (panel >= job.num_panels) continue;
    const int out = lane / 4 * 2;
    const PanelOutput<S::kType> outputs[2] = {PanelOutput<S::kType>(job, panel, out),
                                              PanelOutput<S::kType>(job, panel, out + 1)};
    GRAFT_UNROLL
    for (int i = 0; i < kCount; i += 4) {
      const int sum = first + i;
      if (sum / S::kSums != p) continue;
      const int row = part.first_group * kCoreRows + sum % S::kSums / 4 * kCoreRows + lane % 4 * 2;
      GRAFT_UNROLL
      for (int r = 0; r < 2; ++r) {
        if (row + r >= job.x.rows) continue;
        PanelOutput<S::kType>::write_pair(outputs, row + r, total_of(i + r), total_of(i + 2 + r));
      }
    }
  }
}

template <class S, int kSlices>
__global__ void __launch_bounds__(kWgmmaThreads, 1)
    panel_wgmma_kernel(const __grid_constant__ PanelGemmJob job) {
#if GRAFT_HAS_WGMMA
  using Steps = typename S::Steps;
  __shared__ WgmmaRings<S> rings;
  const PanelOrder& order = job.order;
  const int slice = static_cast<int>(blockIdx.x) % kSlices;
  const int num_segments = order.num_segments / kSlices;
  const int first_segment = slice * num_segments;
  const int first_group = static_cast<int>(blockIdx.y) * S::kTiles;
  const WgmmaPart part = {
      .first_panel = static_cast<int>(blockIdx.x) / kSlices * kWgmmaPanels,
      .first_group = first_group,
      .num_groups = min(static_cast<int>(num_core_groups(job.x.rows)) - first_group, S::kTiles),
      .first_step = order.segment_step(first_segment) / Steps::kChunkSteps * Steps::kChunkSteps,
      .end_step = order.segment_step(first_segment + num_segments)};
  auto* memory = dynamic_shared<unsigned char>();
  auto* totals =
      reinterpret_cast<float*>(memory + S::kChunks * S::kChunkBytes + S::kSteps * S::kStepBytes) +
      threadIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  if (threadIdx.x == kWgmmaSumThreads) {
    rings.chunks.init(1);
    rings.steps.init(1);
    publish_barriers();
  }
  __syncthreads();
  if (warp >= kWgmmaWarps) {
    leave_registers<kWgmmaCopyRegisters>();
    if (warp == kWgmmaWarps) {
      const int num_chunks =
          (part.end_step - part.first_step + Steps::kChunkSteps - 1) / Steps::kChunkSteps;
      // Panels beyond the last are computed from the last and not written.
      const int lane = static_cast<int>(threadIdx.x) % kWarpSize % kWgmmaPanels;
      const std::uint8_t* panel =
          panel_data(job, min(part.first_panel + lane, job.num_panels - 1)) +
          std::int64_t{part.first_step / Steps::kChunkSteps} * Steps::kChunkBytes;
      // Weights may be read before earlier kernels have ended.
      const int first = min(S::kChunks, num_chunks);
      copy_panels<S>(panel, rings.chunks, memory, 0, first);
      begin_kernel();
      copy_panels<S>(panel, rings.chunks, memory, first, num_chunks);
    } else {
      begin_kernel();
      if (threadIdx.x == kWgmmaSumThreads + kWarpSize) copy_x<S>(job, part, rings.steps, memory);
    }
  } else {
    take_registers<kWgmmaSumRegisters>();
    begin_kernel();
    WgmmaSums<S> sums;
    float segment[kWgmmaWarpPanels][S::kSums];
    // A slice may begin in the middle of a chunk.
    if (order.segment_step(first_segment) != part.first_step) {
      rings.chunks.wait(0);
      rings.steps.wait(0);
      rings.steps.release(0);
    }
    for (int i = 0; i < num_segments; ++i) {
      GRAFT_UNROLL
      for (int j = 0; j < S::kLaneSums; ++j)
        segment[j / S::kSums][j % S::kSums] = 0.0F;
      const int end = order.segment_step(first_segment + i + 1) - part.first_step;
      for (int step = order.segment_step(first_segment + i) - part.first_step; step < end;
           step += order.unit_steps)
        sums.add_piece(rings, memory, step, order.unit_steps, warp, segment);
      // A segment is a quarter, or the whole part of a slice.
      GRAFT_UNROLL
      for (int j = 0; j < S::kLaneSums; ++j) {
        const float before = i == 0 ? 0.0F : totals[j * kWgmmaSumThreads];
        totals[j * kWgmmaSumThreads] = before + segment[j / S::kSums][j % S::kSums];
      }
    }
  }
  __syncwarp();
  if constexpr (kSlices == 1) {
    if (warp < kWgmmaWarps)
      write_totals<S, S::kLaneSums>(job, part, 0,
                                    [&](int i) { return totals[i * kWgmmaSumThreads]; });
  } else {
    sync_cluster<kSlices>();
    constexpr int kCount = S::kLaneSums / kSlices;
    const int first = slice * kCount;
    if (warp < kWgmmaWarps) {
      write_totals<S, kCount>(job, part, first, [&](int i) {
        float total = 0.0F;
        GRAFT_UNROLL
        for (int q = 0; q < kPanelQuarters; ++q) {
          float quarter = 0.0F;
          GRAFT_UNROLL
          for (int j = 0; j < kSlices / kPanelQuarters; ++j)
            quarter += remote<kSlices>(totals[(first + i) * kWgmmaSumThreads],
                                       q * (kSlices / kPanelQuarters) + j);
          total += quarter;
        }
        return total;
      });
    }
    sync_cluster<kSlices>();  // its shared memory is read until here
  }
#else
  begin_kernel();
#endif
}

using Launch = void (*)(const PanelGemmJob& job, Stream stream);

template <class S, int kSlices>
void launch_wgmma(const PanelGemmJob& job, Stream stream) {
  launch_with_shared(
      "panel_gemm_wgmma", panel_wgmma_kernel<S, kSlices>,
      {.grid = dim3(static_cast<unsigned>(ceil_div(job.num_panels, kWgmmaPanels) * kSlices),
                    blocks_for(job.x.rows, S::kRows)),
       .block = kWgmmaThreads,
       .shared_bytes = S::kSharedBytes,
       .cluster = kSlices},
      stream, job);
}

constexpr std::array kSliceCounts = {1, 4, 8};
using Variants = std::array<std::array<Launch, kSliceCounts.size()>, 2>;  // 32 and 64 rows

template <class S>
constexpr std::array<Launch, kSliceCounts.size()> slice_variants() {
  return {launch_wgmma<S, 1>, launch_wgmma<S, 4>, launch_wgmma<S, 8>};
}

std::int64_t wgmma_blocks(const PanelGemmJob& job) {
  return ceil_div(job.num_panels, kWgmmaPanels) * ceil_div(job.x.rows, kWgmmaRows);
}

constexpr auto kWgmmaTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  if constexpr (PanelSteps<kType>::kIsSuper)
    return Variants{slice_variants<WgmmaShape<kType, kWgmmaRows / 2>>(),
                    slice_variants<WgmmaShape<kType, kWgmmaRows>>()};
  else
    return Variants{};
});

// Of many columns, which have segments of half a quarter; otherwise where they find idle
// multiprocessors.
int wgmma_slices(const PanelGemmJob& job) {
  if (job.order.num_segments > kPanelQuarters) return job.order.num_segments;
  return 2 * wgmma_blocks(job) <= num_multiprocessors() ? kPanelQuarters : 1;
}

}  // namespace

bool can_use_wgmma(DType dtype) {
  static const bool has_wgmma = [] {
    return device_capability() == 90 &&
           is_compiled_for(90, panel_wgmma_kernel<WgmmaShape<DType::Q4_K, kWgmmaRows>, 1>) &&
           max_shared_bytes() >= WgmmaShape<DType::Q6_K, kWgmmaRows>::kSharedBytes + 1024;
  }();
  return has_wgmma && kWgmmaTable[static_cast<std::size_t>(dtype)][0][0] != nullptr;
}

double wgmma_time(const PanelGemmJob& job) {
  constexpr double kWave = 47;
  constexpr double kShortWave = 37;  // with up to 32 rows
  constexpr double kOrder = 2;       // to_core_rows()
  constexpr double kCluster = 6;     // two synchronizations and the sums of other thread blocks
  // Clusters need thread blocks that are near each other.
  constexpr double kInClusters = 0.9;
  const int slices = wgmma_slices(job);
  const double at_once = num_multiprocessors() * (slices > 1 ? kInClusters : 1.0);
  const double waves = std::ceil(static_cast<double>(wgmma_blocks(job) * slices) / at_once);
  const double wave = job.x.rows > kWgmmaRows / 2 ? kWave : kShortWave;
  return waves * wave / slices * column_share(job) + kOrder + (slices > 1 ? kCluster : 0.0);
}

void panel_gemm_wgmma(DType dtype, const PanelGemmJob& job, Stream stream) {
  const std::size_t rows = job.x.rows > kWgmmaRows / 2 ? 1 : 0;
  const auto slices = std::find(kSliceCounts.begin(), kSliceCounts.end(), wgmma_slices(job));
  kWgmmaTable[static_cast<std::size_t>(dtype)][rows]
             [static_cast<std::size_t>(slices - kSliceCounts.begin())](job, stream);
}

}  // namespace graft::kernels::cuda
