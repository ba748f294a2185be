// A warp unpacks 64 columns of a panel. A thread reads one row of one block of 32 columns: half a
// warp reads 16 rows, so every load of a line takes 64 contiguous bytes, or 32 of FP8. The values
// pass through a tile in shared memory, from which the warp writes rows of 64 columns:
//
//     lanes  0 .. 15, row = lane         columns  0 .. 31 |
//     lanes 16 .. 31, row = lane - 16    columns 32 .. 63 | -> tile [16][64] -> 16 bytes per lane,
//                                                              whole rows in order

#include "graft/kernels/cuda/formats/panels.h"

#include <array>
#include <type_traits>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats/panel_blocks.cuh"
#include "graft/packing/panel_layout.h"

namespace graft::kernels::cuda {
namespace {

constexpr int kBlockRuns = kPanelBlockCols / kRun;
constexpr int kWarpCols = 2 * kPanelBlockCols;
// A thread block unpacks 256 columns of a panel: one chunk of the types with super-blocks.
constexpr int kWarps = 4;
constexpr std::int64_t kMaxGridSide = 65535;  // of the grid's y and z

// Stores a run at `to`. Returns 0 unless an F16 became infinity or NaN.
__device__ std::uint32_t put_run(uint4* to, const float (&run)[kRun], float /*out*/) {
  auto* vectors = reinterpret_cast<float4*>(to);
  vectors[0] = make_float4(run[0], run[1], run[2], run[3]);
  vectors[1] = make_float4(run[4], run[5], run[6], run[7]);
  return 0;
}

__device__ std::uint32_t put_run(uint4* to, const float (&run)[kRun], Half /*out*/) {
  std::uint32_t pairs[kRun / 2];
  std::uint32_t non_finite = 0;
  GRAFT_UNROLL
  for (int i = 0; i < kRun / 2; ++i) {
    pairs[i] = overflowing_half_pair(run[2 * i], run[2 * i + 1]);
    non_finite |= non_finite_halves(pairs[i]);
  }
  *to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  return non_finite;
}

// Stores 32 columns of a row at `to`; finite values saturate. Not inlined: the kernel calls it
// rarely, and would keep its 32 values in registers.
template <DType kType>
__device__ __noinline__ void put_saturated(uint4* to,
                                           const std::uint8_t* chunk,
                                           int block,
                                           int row) {
  const PanelBlock<kType> values(chunk, block, row);
  GRAFT_UNROLL
  for (int i = 0; i < kBlockRuns; ++i) {
    float run[kRun];
    values.decode(i, run);
    to[i] = make_uint4(half_pair(run[0], run[1]), half_pair(run[2], run[3]),
                       half_pair(run[4], run[5]), half_pair(run[6], run[7]));
  }
}

// Stores 32 columns of a row at `to`.
template <DType kType, class Out>
__device__ void put_block(uint4* to, const std::uint8_t* chunk, int block, int row) {
  constexpr int kRunVectors = kRun * sizeof(Out) / sizeof(uint4);
  const PanelBlock<kType> values(chunk, block, row);
  std::uint32_t non_finite = 0;
  GRAFT_UNROLL
  for (int i = 0; i < kBlockRuns; ++i) {
    float run[kRun];
    values.decode(i, run);
    non_finite |= put_run(to + i * kRunVectors, run, Out{});
  }
  if constexpr (std::is_same_v<Out, Half>) {
    if (non_finite != 0) put_saturated<kType>(to, chunk, block, row);
  }
}

struct UnpackJob {
  const std::uint8_t* panels = nullptr;
  std::int64_t panel_bytes = 0;
  std::int64_t rows = 0;  // of one matrix
  unsigned cols = 0;
  void* out = nullptr;
};

template <class Out>
struct Tile {
  static constexpr int kVectorCols = 16 / sizeof(Out);
  static constexpr int kRowVectors = kWarpCols / kVectorCols;
  // One vector of padding: eight lanes that access eight rows use all 32 banks.
  uint4 rows[kPanelRows][kRowVectors + 1];
};

// Writes columns [col, min(col + 64, cols)) of the rows that exist; `out` is row 0 of the panel.
template <class Out>
__device__ void write_tile(
    const Tile<Out>& tile, Out* out, int num_rows, unsigned col, unsigned cols, int lane) {
  using T = Tile<Out>;
  constexpr int kStepRows = kWarpSize / T::kRowVectors;
  const int vector = lane % T::kRowVectors;
  const int first_row = lane / T::kRowVectors;
  col += vector * T::kVectorCols;
  if (col >= cols) return;
  GRAFT_UNROLL
  for (int i = 0; i < kPanelRows; i += kStepRows) {
    const int row = first_row + i;
    if (row < num_rows) {
      *reinterpret_cast<uint4*>(out + std::int64_t{row} * cols + col) = tile.rows[row][vector];
    }
  }
}

// Grid: [columns / 256, panels of a matrix, matrices].
template <DType kType, class Out>
__global__ void __launch_bounds__(kWarps* kWarpSize) unpack_panels_kernel(UnpackJob job) {
  begin_kernel();
  using Layout = PanelLayout<kType>;
  __shared__ Tile<Out> tiles[kWarps];
  const auto warp = static_cast<int>(threadIdx.x / kWarpSize);
  const auto lane = static_cast<int>(threadIdx.x % kWarpSize);
  const unsigned warp_col = (blockIdx.x * kWarps + warp) * kWarpCols;
  if (warp_col >= job.cols) return;
  const int half = lane / kPanelRows;
  const unsigned col = warp_col + half * kPanelBlockCols;
  if (col < job.cols) {
    const std::int64_t panel = std::int64_t{blockIdx.z} * gridDim.y + blockIdx.y;
    const std::uint8_t* chunk = job.panels + panel * job.panel_bytes +
                                std::int64_t{col / Layout::kChunkCols} * Layout::kChunkBytes;
    const int row = lane % kPanelRows;
    const auto block = static_cast<int>(col % Layout::kChunkCols) / kPanelBlockCols;
    put_block<kType, Out>(tiles[warp].rows[row] + half * Tile<Out>::kRowVectors / 2, chunk, block,
                          row);
  }
  __syncwarp();
  const std::int64_t first_row = std::int64_t{blockIdx.y} * kPanelRows;
  const std::int64_t num_rows = min(job.rows - first_row, std::int64_t{kPanelRows});
  Out* out = static_cast<Out*>(job.out) + (blockIdx.z * job.rows + first_row) * job.cols;
  write_tile(tiles[warp], out, static_cast<int>(num_rows), warp_col, job.cols, lane);
}

using Launch = void (*)(const PanelStack& stack, void* out, Stream stream);

template <DType kType, class Out>
void launch_unpack(const PanelStack& stack, void* out, Stream stream) {
  using Layout = PanelLayout<kType>;
  const std::int64_t panels = ceil_div(stack.rows, kPanelRows);
  GRAFT_CHECK(stack.cols % Layout::kChunkCols == 0, stack.cols, " columns of ", name(kType));
  GRAFT_CHECK(panels <= kMaxGridSide, stack.rows, " rows");
  GRAFT_CHECK(stack.num_matrices <= kMaxGridSide, stack.num_matrices, " matrices");
  const UnpackJob job = {.panels = reinterpret_cast<const std::uint8_t*>(stack.panels),
                         .panel_bytes = packing::panel_bytes(Layout::kFormat, stack.cols),
                         .rows = stack.rows,
                         .cols = static_cast<unsigned>(stack.cols),
                         .out = out};
  launch("unpack_panels", unpack_panels_kernel<kType, Out>,
         {dim3(blocks_for(stack.cols, kWarps * kWarpCols), static_cast<unsigned>(panels),
               static_cast<unsigned>(stack.num_matrices)),
          kWarps * kWarpSize},
         stream, job);
}

template <class Out, std::size_t... kIndices>
constexpr std::array<Launch, kNumDTypes> make_table(std::index_sequence<kIndices...> /*types*/) {
  std::array<Launch, kNumDTypes> table{};
  ((table[static_cast<std::size_t>(packing::kPackedTypes[kIndices].dtype)] =
        launch_unpack<packing::kPackedTypes[kIndices].dtype, Out>),
   ...);
  return table;
}

template <class Out>
constexpr auto kTable = make_table<Out>(std::make_index_sequence<packing::kPackedTypes.size()>{});

template <class Out>
void unpack(const PanelStack& stack, Out* out, Stream stream) {
  const Launch function = kTable<Out>[static_cast<std::size_t>(stack.dtype)];
  GRAFT_CHECK(function != nullptr, "no kernel unpacks panels of ", name(stack.dtype));
  function(stack, out, stream);
}

}  // namespace

bool can_unpack_panels(DType dtype) {
  return kTable<float>[static_cast<std::size_t>(dtype)] != nullptr;
}

void unpack_panels(const PanelStack& stack, Half* out, Stream stream) {
  unpack(stack, out, stream);
}

void unpack_panels(const PanelStack& stack, float* out, Stream stream) {
  unpack(stack, out, stream);
}

}  // namespace graft::kernels::cuda
