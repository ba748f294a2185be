// Up to 16 rows, where reading the weights takes the time. A warp has one unit of the columns,
// whose rows of x stay in its registers, and walks through the panels of its thread block:
//
//                  columns ->
//                  unit 0    unit 1    ...  unit 15       a thread block has up to 16 units:
//     panel p    | warp 0  | warp 1  |    | warp 15  |    one slice of the columns
//     panel p+1  |         |         |    |          |
//      ...       |         |         |    |          |    the panels of all matrices are spread
//                                                         evenly over the thread blocks of a slice
//
// Each warp copies its part of the next panels into its ring of buffers. The sums of the warps meet
// in shared memory every two panels.

#include <algorithm>
#include <array>

#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm_job.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kFewWarps = 16;
constexpr int kFewThreads = kFewWarps * kWarpSize;
constexpr int kFewUnitSteps = 2;
constexpr int kFewDepth = 2;  // panels in the ring: more was slower
constexpr int kFewBatch = 2;  // panels between two synchronizations
constexpr int kFewRowStride = kPanelRows + 4;

template <DType kType, int kTiles>
struct FewShape {
  static constexpr int kBuffer = kFewUnitSteps * PanelSteps<kType>::kBytes;
  static constexpr int kRing = kFewWarps * kFewDepth * kBuffer;
  static constexpr int kPart = kTiles * kPanelTileRows * kFewRowStride;
  static constexpr std::size_t kSharedBytes = kRing + 2 * kFewBatch * kFewWarps * kPart * 4;
};

// The unit of a warp: steps [first, first + count), in memory one or two pieces per panel.
template <DType kType>
struct FewUnit {
  using Steps = PanelSteps<kType>;
  int first = 0;
  int count = 0;
  int last_blocks = kPanelStepBlocks;  // of the last step

  __device__ bool is_chunk() const {
    return Steps::kIsSuper && count == Steps::kChunkSteps && first % Steps::kChunkSteps == 0;
  }
  __device__ std::uint32_t bytes() const {
    if (is_chunk()) return Steps::kChunkBytes;
    if (Steps::kIsSuper) return count * Steps::kBytes;
    return ((count - 1) * kPanelStepBlocks + last_blocks) * Steps::kBlockStride;
  }
  // Copies the unit of a panel.
  template <class Ring>
  __device__ void fill(Ring& ring, int k, unsigned char* to, const std::uint8_t* panel) const {
    ring.expect(k, bytes());
    const std::uint8_t* from =
        panel + std::int64_t{first / Steps::kChunkSteps} * Steps::kChunkBytes;
    if (!Steps::kIsSuper || is_chunk()) return ring.fill(k, to, from, bytes());
    if constexpr (Steps::kIsSuper) {
      for (int s = 0; s < count; ++s) {
        const int step = first + s;
        from = panel + std::int64_t{step / Steps::kChunkSteps} * Steps::kChunkBytes;
        unsigned char* at = to + s * Steps::kBytes;
        ring.fill(k, at, from, Steps::kHeaderBytes);
        ring.fill(k, at + Steps::kHeaderBytes,
                  from + Steps::kHeaderBytes + step % Steps::kChunkSteps * Steps::kCodeBytes,
                  Steps::kCodeBytes);
      }
    }
  }
  // Step s of the unit in a buffer.
  __device__ PanelStepAt step_at(const unsigned char* buffer, int s) const {
    const int num_blocks = s == count - 1 ? last_blocks : kPanelStepBlocks;
    if (is_chunk()) {
      return {.header = buffer,
              .codes = buffer + Steps::kHeaderBytes + s * Steps::kCodeBytes,
              .first_block = s * kPanelStepBlocks,
              .num_blocks = num_blocks};
    }
    const unsigned char* at = buffer + s * Steps::kBytes;
    return {.header = at,
            .codes = at + Steps::kHeaderBytes,
            .first_block = (first + s) % Steps::kChunkSteps * kPanelStepBlocks,
            .num_blocks = num_blocks};
  }
};

// Which units of a slice end a segment, and which an entry: bit w for that of warp w.
struct FewEnds {
  unsigned segments = 0;
  unsigned entries = 0;
};

__device__ FewEnds few_ends(const PanelGemmJob& job, int slice) {
  const int num_segments = job.order.num_segments / job.slices;
  const int first = slice * num_segments;
  const int first_unit = job.order.segment_unit(first);
  const int in_entry = job.order.num_segments / num_panel_entries(job.slices);
  FewEnds ends;
  for (int i = 1; i <= num_segments; ++i) {
    const int unit = job.order.segment_unit(first + i) - first_unit;
    if (unit == 0) continue;
    ends.segments |= 1U << (unit - 1);
    if ((first + i) % in_entry == 0) ends.entries |= 1U << (unit - 1);
  }
  return ends;
}

// Adds the sums of the warps for one output of a panel. parts: [warp][part]
template <DType kType, int kPart>
__device__ void add_parts(const PanelGemmJob& job,
                          const FewEnds& ends,
                          int slice,
                          int row,
                          int panel,
                          const float* parts) {
  const int o = static_cast<int>(threadIdx.x) % kPanelRows;
  float values[kFewWarps];
  GRAFT_UNROLL
  for (int w = 0; w < kFewWarps; ++w)
    values[w] = parts[w * kPart];
  int entry = slice * num_panel_entries(job.slices) / job.slices;
  float segment = 0.0F;
  float quarter = 0.0F;
  float total = 0.0F;
  GRAFT_UNROLL
  for (int w = 0; w < kFewWarps; ++w) {
    segment += values[w];
    if ((ends.segments >> w & 1) != 0) {
      quarter += segment;
      segment = 0.0F;
    }
    if ((ends.entries >> w & 1) != 0) {
      if (job.slices == 1)
        total += quarter;
      else
        __stcg(entry_at(job, entry++, row, panel, o), quarter);
      quarter = 0.0F;
    }
  }
  if (job.slices == 1) write_result<kType>(job, row, panel, o, total);
}

template <DType kType, int kTiles>
__global__ void __launch_bounds__(kFewThreads, 1)
    panel_few_kernel(const __grid_constant__ PanelGemmJob job) {
#if __CUDA_ARCH__ >= 900
  using S = FewShape<kType, kTiles>;
  __shared__ std::uint64_t barriers[kFewWarps][kFewDepth];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int ctas = static_cast<int>(gridDim.x) / job.slices;  // of a slice
  const int slice = static_cast<int>(blockIdx.x) / ctas;
  const int cta = static_cast<int>(blockIdx.x) % ctas;
  const int first_panel = cta * job.num_panels / ctas;
  const int num_panels = (cta + 1) * job.num_panels / ctas - first_panel;
  const PanelOrder& order = job.order;
  const int slice_segments = order.num_segments / job.slices;
  const int unit_index = order.segment_unit(slice * slice_segments) + warp;
  FewUnit<kType> unit;
  if (unit_index < order.segment_unit((slice + 1) * slice_segments)) {
    unit.first = order.unit_step(unit_index);
    unit.count = order.unit_step(unit_index + 1) - unit.first;
    unit.last_blocks =
        min(order.blocks_from(unit.first + unit.count - 1), static_cast<int>(kPanelStepBlocks));
  }
  auto* memory = dynamic_shared<unsigned char>();
  unsigned char* buffers = memory + warp * kFewDepth * S::kBuffer;
  auto* parts = reinterpret_cast<float*>(memory + S::kRing);
  CopyRing<kFewDepth> ring(barriers[warp]);
  const auto fill = [&](int k) {
    if (k < num_panels && unit.count > 0 && threadIdx.x % kWarpSize == 0)
      unit.fill(ring, k, buffers + k % kFewDepth * S::kBuffer, panel_data(job, first_panel + k));
  };
  // Weights may be read before earlier kernels have ended.
  for (int k = 0; k < kFewDepth; ++k)
    fill(k);
  begin_kernel();
  uint4 x[kFewUnitSteps][kPanelStepBlocks][kTiles];
  uint2 x_sums[kFewUnitSteps][kTiles];
  GRAFT_UNROLL
  for (int s = 0; s < kFewUnitSteps; ++s) {
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const int row = tile * kPanelTileRows + g;
      const bool is_there = row < job.x.rows && s < unit.count;
      const Half* values = panel_values(job.x, unit.first + s, row) + t * 8;
      GRAFT_UNROLL
      for (int b = 0; b < kPanelStepBlocks; ++b) {
        x[s][b][tile] =
            is_there ? *reinterpret_cast<const uint4*>(values + (b ^ row % 2) * kPanelBlockCols)
                     : make_uint4(0, 0, 0, 0);
      }
      x_sums[s][tile] =
          is_there ? *reinterpret_cast<const uint2*>(panel_sums(job.x, unit.first + s, row) + t * 4)
                   : make_uint2(0, 0);
    }
  }
  const FewEnds ends = few_ends(job, slice);
  for (int k = 0; k < num_panels; ++k) {
    PieceSums<kType, 1, kTiles> piece;
    if (unit.count > 0) ring.wait(k);
    GRAFT_UNROLL
    for (int s = 0; s < kFewUnitSteps; ++s) {
      if (s >= unit.count) continue;
      const unsigned char* buffer = buffers + k % kFewDepth * S::kBuffer;
      const PanelStep<kType> step[1] = {PanelStep<kType>(unit.step_at(buffer, s), g, t)};
      piece.add(
          step, s, t, [&](int b, int tile) { return x[s][b][tile]; },
          [&](int tile) { return x_sums[s][tile]; });
      if (s == unit.count - 1) piece.finish(step, unit.count);
    }
    const auto& sums = piece.sums();
    __syncwarp();
    fill(k + kFewDepth);
    // [turn of a batch % 2][panel of the batch][warp][row][output]
    float* turn = parts + k / kFewBatch % 2 * (kFewBatch * kFewWarps * S::kPart);
    float* to = turn + (k % kFewBatch * kFewWarps + warp) * S::kPart + 2 * g;
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      float* row = to + (tile * kPanelTileRows + 2 * t) * kFewRowStride;
      *reinterpret_cast<float2*>(row) = make_float2(sums[0][tile][0], sums[0][tile][2]);
      *reinterpret_cast<float2*>(row + kFewRowStride) =
          make_float2(sums[0][tile][1], sums[0][tile][3]);
    }
    if (k % kFewBatch != kFewBatch - 1 && k != num_panels - 1) continue;
    __syncthreads();
    constexpr int kTileOut = kTiles * kPanelTileRows * kPanelRows;
    for (int at = static_cast<int>(threadIdx.x); at < (k % kFewBatch + 1) * kTileOut;
         at += kFewThreads) {
      const int panel = at / kTileOut;
      const int row = at % kTileOut / kPanelRows;
      if (row >= job.x.rows) continue;
      add_parts<kType, S::kPart>(
          job, ends, slice, row, first_panel + k - k % kFewBatch + panel,
          turn + panel * kFewWarps * S::kPart + row * kFewRowStride + at % kPanelRows);
    }
  }
  if (job.slices == 1 || !is_last_slice(job, cta)) return;
  const int num_out = num_panels * kPanelRows;
  for (int at = static_cast<int>(threadIdx.x); at < num_out * job.x.rows; at += kFewThreads) {
    const int row = at / num_out;
    const int panel = first_panel + at % num_out / kPanelRows;
    const int o = at % kPanelRows;
    write_result<kType>(job, row, panel, o, sum_entries(job, row, panel, o));
  }
#else
  begin_kernel();
#endif
}

using Launch = void (*)(const PanelGemmJob& job, Stream stream);

template <DType kType, int kTiles>
void launch_few(const PanelGemmJob& job, Stream stream) {
  static const int multiprocessors = num_multiprocessors();
  const int ctas =
      std::max(std::min({multiprocessors / job.slices, job.num_panels, kPanelCounters}), 1);
  launch_with_shared("panel_gemm_few", panel_few_kernel<kType, kTiles>,
                     {.grid = static_cast<unsigned>(ctas * job.slices),
                      .block = kFewThreads,
                      .shared_bytes = FewShape<kType, kTiles>::kSharedBytes},
                     stream, job);
}

using Variants = std::array<Launch, 2>;  // 8 and 16 rows

constexpr auto kFewTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return Variants{launch_few<kType, 1>, launch_few<kType, 2>};
});

}  // namespace

int few_slices(const PanelOrder& order) {
  int slices = 1;
  while (slices < order.num_segments && ceil_div(order.num_units, slices) > kFewWarps)
    slices *= 2;
  return slices;
}

bool can_use_few(const PanelOrder& order) {
  return ceil_div(order.num_units, few_slices(order)) <= kFewWarps;
}

std::size_t max_few_shared_bytes() {
  std::size_t bytes = 0;
  for_each_panel_type([&](auto type) {
    bytes = std::max(bytes, FewShape<decltype(type)::kType, 2>::kSharedBytes);
  });
  return bytes;
}

bool has_few_kernel() {
  return is_compiled_for(90, panel_few_kernel<DType::Q4_K, 1>);
}

void panel_gemm_few(DType dtype, const PanelGemmJob& job, Stream stream) {
  kFewTable[static_cast<std::size_t>(dtype)][job.x.rows > kPanelTileRows ? 1 : 0](job, stream);
}

}  // namespace graft::kernels::cuda
