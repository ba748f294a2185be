// From 17 rows on, any type. The warps of a thread block share rows of x in shared memory; a warp
// multiplies two panels with all of them, so that a load of x serves two products.
//
//     thread block   kPanelWarps x 2 panels, kTiles x 8 rows; kColumnWarps warps share the columns,
//                    each with its own ring of x
//     grid           [groups of panels x slices, groups of rows]
//
// Few groups of panels: 2 x 4 warps, each with one quarter of the columns or half of one (then two
// slices). Many: 4 x 1 warps, two thread blocks per multiprocessor, or 8 x 1 warps with 64 rows,
// which decodes the panels half as often.

#include <algorithm>
#include <array>
#include <limits>

#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm_job.cuh"
#include "graft/kernels/cuda/linear/panels/panel_x_ring.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWarpPanels = 2;
constexpr int kWideXDepth = 3;

template <DType kDType, int kTiles_, int kPanelWarps_, int kColumnWarps_, int kBlocks_>
struct WideShape {
  using Steps = PanelSteps<kDType>;
  static constexpr DType kType = kDType;
  static constexpr int kTiles = kTiles_;
  static constexpr int kPanelWarps = kPanelWarps_;
  static constexpr int kColumnWarps = kColumnWarps_;
  static constexpr int kBlocks = kBlocks_;  // per multiprocessor
  static constexpr int kWarps = kPanelWarps * kColumnWarps;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kRows = kTiles * kPanelTileRows;
  static constexpr int kPanels = kPanelWarps * kWarpPanels;
  static constexpr int kOut = kPanels * kPanelRows;
  static constexpr int kSums = kWarpPanels * kTiles * 4;  // of a lane
  // Warps with all columns keep their totals in shared memory; with 64 rows not even quarters fit
  // in registers.
  static constexpr bool kTotalsInShared = kColumnWarps == 1;
  static constexpr bool kHasQuarters = kTiles <= 4;
  static constexpr int kDepth = Steps::kIsSuper ? 2 : 3;  // a chunk has two steps or one
  static constexpr int kRing = kWarps * kDepth * kWarpPanels * Steps::kChunkBytes;
  using XRing = PanelXRing<kRows, kWideXDepth, kPanelWarps>;
  static constexpr int kX = kColumnWarps * XRing::kBytes;
  static constexpr int kTotals = kTotalsInShared ? kThreads * kSums * 4 : 0;
  static constexpr int kRowStride = kOut + 4;
  static constexpr int kPart = kRows * kRowStride;
  static constexpr int kMain = kRing + kX + kTotals;
  static constexpr int kParts = kColumnWarps * kPart * 4;  // in the place of the ring
  static_assert(!kTotalsInShared || kParts <= kRing + kX);
  static constexpr std::size_t kSharedBytes = kMain > kParts ? kMain : kParts;
};

// Sums of a lane: [panel][tile][4].
template <class S>
struct WideSums {
  float at[kWarpPanels][S::kTiles][4] = {};

  // to += these, which become 0.
  __device__ void move_to(WideSums& to) {
    GRAFT_UNROLL
    for (int i = 0; i < S::kSums; ++i) {
      float& from = at[i / (4 * S::kTiles)][i / 4 % S::kTiles][i % 4];
      to.at[i / (4 * S::kTiles)][i / 4 % S::kTiles][i % 4] += from;
      from = 0.0F;
    }
  }
  // The same with sums in shared memory: [sum][thread]
  __device__ void move_to(float* shared) {
    GRAFT_UNROLL
    for (int i = 0; i < S::kSums; ++i) {
      float& from = at[i / (4 * S::kTiles)][i / 4 % S::kTiles][i % 4];
      shared[i * S::kThreads] += from;
      from = 0.0F;
    }
  }
};

// The sums of a warp's segments. Column warps have at most one quarter, others all of them.
template <class S>
class WideTotals {
 public:
  __device__ explicit WideTotals(float* shared) : shared_(shared + threadIdx.x) {
    if constexpr (S::kTotalsInShared) {
      for (int i = 0; i < S::kSums; ++i)
        shared_[i * S::kThreads] = 0.0F;
    }
  }
  __device__ void end_segment(WideSums<S>& segment, bool is_end_of_quarter) {
    if constexpr (S::kHasQuarters) {
      segment.move_to(quarter_);
      if constexpr (S::kTotalsInShared)
        if (is_end_of_quarter) quarter_.move_to(shared_);
    } else {
      segment.move_to(shared_);  // a quarter is one segment: choose()
    }
  }
  __device__ float get(int panel, int tile, int i) const {
    if constexpr (S::kTotalsInShared)
      return shared_[((panel * S::kTiles + tile) * 4 + i) * S::kThreads];
    else
      return quarter_.at[panel][tile][i];
  }

 private:
  float* shared_;
  WideSums<S> quarter_;
};

// Adds the sums of the column warps. parts: [column warp][row][output]. A thread has one output.
template <class S>
__device__ void write_parts(
    const PanelGemmJob& job, const typename S::XRing& x, int group, int slice, const float* parts) {
  static_assert(S::kThreads % S::kOut == 0);
  constexpr int kRowStep = S::kThreads / S::kOut;
  const int out = static_cast<int>(threadIdx.x) % S::kOut;
  const int panel = group * S::kPanels + out / kPanelRows;
  const bool is_there = panel < job.num_panels;
  const int first = static_cast<int>(threadIdx.x) / S::kOut;
  const int end = is_there ? x.num_rows() : 0;
  const PanelOutput<S::kType> to(job, is_there ? panel : 0, out % kPanelRows);
  if (job.slices == 1) {
    GRAFT_UNROLL_4
    for (int row = first; row < end; row += kRowStep) {
      float total = 0.0F;
      GRAFT_UNROLL
      for (int w = 0; w < S::kColumnWarps; ++w)
        total += parts[w * S::kPart + row * S::kRowStride + out];
      to.write(x.first_row() + row, total);
    }
    return;
  }
  if constexpr (S::kColumnWarps > 1) {
    // The warps have halves of quarters.
    for (int row = first; row < end; row += kRowStep) {
      const float* from = parts + row * S::kRowStride + out;
      GRAFT_UNROLL
      for (int w = 0; w < S::kColumnWarps; w += 2) {
        __stcg(entry_at(job, (slice * S::kColumnWarps + w) / 2, x.first_row() + row, panel,
                        out % kPanelRows),
               from[w * S::kPart] + from[(w + 1) * S::kPart]);
      }
    }
  }
  if (!is_last_slice(job, static_cast<int>(blockIdx.y * (gridDim.x / job.slices)) + group)) return;
  GRAFT_UNROLL_4
  for (int row = first; row < end; row += kRowStep) {
    to.write(x.first_row() + row, sum_entries(job, x.first_row() + row, panel, out % kPanelRows));
  }
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    panel_wide_kernel(const __grid_constant__ PanelGemmJob job) {
#if __CUDA_ARCH__ >= 900
  using Steps = typename S::Steps;
  __shared__ std::uint64_t barriers[S::kWarps][S::kDepth];
  __shared__ std::uint64_t x_barriers[S::kColumnWarps][S::XRing::kBarriers];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int panel_warp = warp % S::kPanelWarps;
  const int column_warp = warp / S::kPanelWarps;
  const int slice = static_cast<int>(blockIdx.x) % job.slices;
  const int group = static_cast<int>(blockIdx.x) / job.slices;
  const PanelOrder& order = job.order;
  const int num_segments = order.num_segments / (S::kColumnWarps * job.slices);
  const int first_segment = (slice * S::kColumnWarps + column_warp) * num_segments;
  const int first_step = order.segment_step(first_segment);
  const int end_step = order.segment_step(first_segment + num_segments);
  auto* memory = dynamic_shared<unsigned char>();
  const int first_row = static_cast<int>(blockIdx.y) * S::kRows;
  const typename S::XRing x(job.x, memory + S::kRing + column_warp * S::XRing::kBytes,
                            x_barriers[column_warp],
                            {.first_row = first_row,
                             .num_rows = min(static_cast<int>(job.x.rows) - first_row, S::kRows),
                             .first_step = first_step,
                             .end_step = end_step});
  if (panel_warp == 0 && threadIdx.x % kWarpSize == 0) x.init();
  CopyRing<S::kDepth> ring(barriers[warp]);
  unsigned char* buffers = memory + warp * S::kDepth * kWarpPanels * Steps::kChunkBytes;
  // Panels beyond the last are computed from the last and not written.
  const std::uint8_t* panels[kWarpPanels];
  GRAFT_UNROLL
  for (int p = 0; p < kWarpPanels; ++p) {
    const int panel = group * S::kPanels + panel_warp * kWarpPanels + p;
    panels[p] = panel_data(job, min(panel, job.num_panels - 1));
  }
  const int first_chunk = first_step / Steps::kChunkSteps;
  const auto fill = [&](int k) {
    const int step = (first_chunk + k) * Steps::kChunkSteps;
    const int num_blocks = min(order.blocks_from(step), static_cast<int>(kPanelStepBlocks));
    const std::uint32_t all =
        Steps::kIsSuper ? Steps::kChunkBytes : num_blocks * Steps::kBlockStride;
    const std::uint32_t bytes = step < end_step ? all : 0;  // 0: nothing is copied
    ring.expect(k, kWarpPanels * bytes);
    GRAFT_UNROLL
    for (int p = 0; p < kWarpPanels; ++p) {
      ring.fill(k, buffers + (k % S::kDepth * kWarpPanels + p) * Steps::kChunkBytes,
                panels[p] + std::int64_t{first_chunk + k} * Steps::kChunkBytes, bytes);
    }
  };
  // Weights may be read before earlier kernels have ended.
  for (int k = 0; k < S::kDepth; ++k)
    fill(k);
  begin_kernel();
  __syncthreads();
  if (panel_warp == 0) x.begin();
  WideTotals<S> totals(reinterpret_cast<float*>(memory + S::kRing + S::kX));
  WideSums<S> segment;
  PieceSums<S::kType, kWarpPanels, S::kTiles> unit;
  for (int i = 0; i < num_segments; ++i) {
    const int end = order.segment_step(first_segment + i + 1);
    for (int step = order.segment_step(first_segment + i); step < end; ++step) {
      const int k = step / Steps::kChunkSteps - first_chunk;
      const int half = step % Steps::kChunkSteps;
      ring.wait(k);
      const unsigned char* rows = x.wait(step);
      const auto at = [&](int p) -> PanelStepAt {
        const unsigned char* chunk =
            buffers + (k % S::kDepth * kWarpPanels + p) * Steps::kChunkBytes;
        return {.header = chunk,
                .codes = chunk + Steps::kHeaderBytes + half * Steps::kCodeBytes,
                .first_block = half * kPanelStepBlocks,
                .num_blocks = order.blocks_from(step)};
      };
      const PanelStep<S::kType> steps[kWarpPanels] = {PanelStep<S::kType>(at(0), g, t),
                                                      PanelStep<S::kType>(at(1), g, t)};
      const auto x_of = [&](int b, int tile) {
        return *reinterpret_cast<const uint4*>(rows + (tile * kPanelTileRows + g) * kPanelRowBytes +
                                               (b ^ g % 2) * 64 + t * 16);
      };
      const auto x_sums_of = [&](int tile) {
        return *reinterpret_cast<const uint2*>(rows + S::kRows * kPanelRowBytes +
                                               (tile * kPanelTileRows + g) * kPanelSumBytes +
                                               t * 8);
      };
      const bool is_second = (step + 1) % order.unit_steps == 0 && order.unit_steps == 2;
      if (is_second)
        unit.add(steps, 1, t, x_of, x_sums_of);
      else
        unit.add(steps, 0, t, x_of, x_sums_of);
      x.release(step, panel_warp == 0);
      if (half == Steps::kChunkSteps - 1) fill(k + S::kDepth);
      if ((step + 1) % order.unit_steps == 0 || step + 1 == end) {
        unit.finish(steps, is_second ? 2 : 1);
        unit.move_to(segment.at);
      }
    }
    totals.end_segment(segment, (i + 1) % (order.num_segments / kPanelQuarters) == 0);
  }
  __syncthreads();  // the buffers are not used any more
  auto* parts = dynamic_shared<float>();
  GRAFT_UNROLL
  for (int p = 0; p < kWarpPanels; ++p) {
    GRAFT_UNROLL
    for (int tile = 0; tile < S::kTiles; ++tile) {
      GRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = tile * kPanelTileRows + 2 * t + i % 2;
        const int out = (panel_warp * kWarpPanels + p) * kPanelRows + 2 * g + i / 2;
        parts[column_warp * S::kPart + row * S::kRowStride + out] = totals.get(p, tile, i);
      }
    }
  }
  __syncthreads();
  write_parts<S>(job, x, group, slice, parts);
#else
  begin_kernel();
#endif
}

// The variants of a type, and what they cost.
enum Variant : std::uint8_t { kNarrow, kBroad, kTall, kNumVariants };
template <DType kType>
using Narrow = WideShape<kType, 4, 2, 4, 1>;
template <DType kType>
using Broad = WideShape<kType, 4, 4, 1, 2>;
template <DType kType>
using Tall = WideShape<kType, 8, 8, 1, 1>;

struct VariantCost {
  int panels;  // of a thread block
  int rows;
  int blocks;  // per multiprocessor
  int wave;    // time in which all multiprocessors run their thread blocks once, same columns
};

template <class S>
constexpr VariantCost cost_of(int wave) {
  return {.panels = S::kPanels, .rows = S::kRows, .blocks = S::kBlocks, .wave = wave};
}

// The times are as measured on an H200 with Q4_K: 13, 44 and 79 us for 4096 columns. The slowest
// multiprocessor decides, so the variant with the smallest sum of waves is taken.
constexpr std::array<VariantCost, kNumVariants> kCosts = {cost_of<Narrow<DType::Q4_K>>(13),
                                                          cost_of<Broad<DType::Q4_K>>(44),
                                                          cost_of<Tall<DType::Q4_K>>(79)};

std::int64_t blocks_of(const VariantCost& cost, const PanelGemmJob& job) {
  return ceil_div(job.num_panels, cost.panels) * ceil_div(job.x.rows, cost.rows);
}

struct Choice {
  Variant variant = kNarrow;
  std::int64_t time = std::numeric_limits<std::int64_t>::max();  // for 4096 columns
};

Choice choose(const PanelGemmJob& job) {
  static const int multiprocessors = num_multiprocessors();
  Choice best;
  for (const Variant variant : {kNarrow, kBroad, kTall}) {
    const VariantCost& cost = kCosts[variant];
    const bool is_short = job.order.num_segments == kPanelQuarters;
    if (variant == kTall && (job.x.rows <= kCosts[kBroad].rows || !is_short)) continue;
    const std::int64_t waves = ceil_div(blocks_of(cost, job), multiprocessors * cost.blocks);
    if (waves * cost.wave < best.time) best = {.variant = variant, .time = waves * cost.wave};
  }
  return best;
}

using Launch = void (*)(const PanelGemmJob& job, Stream stream);

template <class S>
void launch_wide(const PanelGemmJob& job, Stream stream) {
  launch_with_shared(
      "panel_gemm_wide", panel_wide_kernel<S>,
      {.grid = dim3(static_cast<unsigned>(ceil_div(job.num_panels, S::kPanels) * job.slices),
                    blocks_for(job.x.rows, S::kRows)),
       .block = S::kThreads,
       .shared_bytes = S::kSharedBytes},
      stream, job);
}

constexpr auto kWideTable = panel_type_table<std::array<Launch, kNumVariants>>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return std::array<Launch, kNumVariants>{launch_wide<Narrow<kType>>, launch_wide<Broad<kType>>,
                                          launch_wide<Tall<kType>>};
});

}  // namespace

// Two slices where they find idle multiprocessors: the narrow variant of many columns.
int wide_slices(const PanelGemmJob& job) {
  const bool is_long = job.order.num_segments > kPanelQuarters;
  const bool is_idle = 2 * blocks_of(kCosts[kNarrow], job) <= num_multiprocessors();
  return is_long && is_idle && choose(job).variant == kNarrow ? 2 : 1;
}

double wide_time(const PanelGemmJob& job) {
  constexpr double kTwoSlices = 0.7;
  const double share = column_share(job) * (wide_slices(job) == 2 ? kTwoSlices : 1.0);
  return static_cast<double>(choose(job).time) * share;
}

void panel_gemm_wide(DType dtype, const PanelGemmJob& job, Stream stream) {
  kWideTable[static_cast<std::size_t>(dtype)][choose(job).variant](job, stream);
}

std::size_t max_wide_shared_bytes() {
  std::size_t bytes = 0;
  for_each_panel_type([&](auto type) {
    constexpr DType kType = decltype(type)::kType;
    bytes = std::max({bytes, Narrow<kType>::kSharedBytes, Broad<kType>::kSharedBytes,
                      Tall<kType>::kSharedBytes});
  });
  return bytes;
}

}  // namespace graft::kernels::cuda
