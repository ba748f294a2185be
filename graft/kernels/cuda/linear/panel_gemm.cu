// The columns are cut into slices. A thread block multiplies a group of panels with up to 64 rows
// over some of the slices, and the thread blocks of its cluster have the others. A warp has one or
// two panels of the group, which it copies into a ring of buffers; the rows of x are copied once
// for the warps of a slice. The sums of the slices are added in ascending order, each thread block
// of a cluster those of some outputs. More rows leave room for fewer slices of x in shared memory,
// but all slices of an output are the same for any number of rows.
//
//    thread block   16 warps = slices x panels / 1 or 2
//    grid           [groups of panels x thread blocks of a cluster, groups of rows]

#include "graft/kernels/cuda/linear/panel_gemm.h"

#include <algorithm>
#include <array>

#include <cooperative_groups.h>

#include "graft/base/check.h"
#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panel_step.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kXDepth = 2;  // steps of x in shared memory
constexpr int kRowBytes = kPanelRowHalves * static_cast<int>(sizeof(Half));
constexpr int kMinSlices = 2;
constexpr int kMaxSlices = 16;
constexpr int kMaxTiles = 8;

struct Matrix {
  const std::uint8_t* panels = nullptr;
  const float* bias = nullptr;
  Rows y = {};
  int out = 0;
  int end_group = 0;  // groups of panels of the matrices up to this one
};

struct Job {
  Matrix matrices[kMaxPanelMatrices];
  std::int64_t panel_bytes = 0;
  int num_blocks = 0;  // of 32 columns
  int num_buffers = 0;
  int block_slices = 1;  // of a thread block
  int cluster_size = 1;
  PanelRows x;
};

template <DType kType, int kTiles>
struct Shape {
  using Buffer = PanelBuffer<kType>;
  // Two panels per warp use x twice; large buffers leave no room for it.
  static constexpr int kPanels = Buffer::kBytes > 2600 ? 1 : 2;
  static constexpr int kDepth = kPanels == 1 ? 3 : 2;
  static constexpr int kRows = kTiles * kPanelTileRows;
  static constexpr int kWarpOut = kPanels * kPanelRows;
  static constexpr int kWarpBytes = kDepth * kPanels * Buffer::kBytes;
  static constexpr int kXBytes = kXDepth * kRows * kRowBytes;  // of a slice
  static constexpr int kMaxBlockSlices = kMaxSlices / kTiles;
  static constexpr int kSums = kWarps * kWarpOut * kRows;  // of all slices of a thread block
  static constexpr std::size_t kSharedBytes =
      std::max(kWarps * kWarpBytes + kMaxBlockSlices * kXBytes, kSums * 4);
};

// The matrix of a group of panels, and the number of the group in it.
struct Group {
  int matrix = 0;
  int index = 0;
};

__device__ Group group_of(const Job& job, int group) {
  int matrix = 0;
  int first = 0;
  while (group >= job.matrices[matrix].end_group)
    first = job.matrices[matrix++].end_group;
  return {.matrix = matrix, .index = group - first};
}

// The rows of x of a slice, step by step. Warp 0 copies, all warps of the slice read.
template <int kRows>
class SliceRows {
 public:
  // barriers: 2 kXDepth words.
  __device__ SliceRows(
      const Job& job, unsigned char* buffers, std::uint64_t* barriers, int first_step, int end_step)
      : x_(job.x),
        buffers_(buffers),
        barriers_(shared_address(barriers)),
        first_step_(first_step),
        end_step_(end_step),
        first_row_(static_cast<int>(blockIdx.y) * kRows),
        num_rows_(min(static_cast<int>(job.x.rows) - first_row_, kRows)) {}

  // One thread of the slice, which has num_warps warps; then the thread block synchronizes.
  __device__ void init(int num_warps) const {
    for (int i = 0; i < kXDepth; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), num_warps);
    }
    publish_barriers();
  }

  // One thread of the slice.
  __device__ void begin() const {
    for (int i = 0; i < kXDepth; ++i)
      copy(first_step_ + i);
  }

  __device__ const unsigned char* wait(int step) const {
    const int k = step - first_step_;
    wait_for_phase(full(k % kXDepth), k / kXDepth);
    return buffers_ + k % kXDepth * kRows * kRowBytes;
  }

  // All lanes of a warp when they have read the step. The buffer of the step before is free when
  // all warps have left it: one step later, that wait is short.
  __device__ void release(int step, bool copies) const {
    __syncwarp();
    const int k = step - first_step_;
    if (threadIdx.x % kWarpSize == 0) {
      arrive(empty(k % kXDepth));
      if (copies && k > 0) {
        wait_for_phase(empty((k - 1) % kXDepth), (k - 1) / kXDepth);
        copy(step - 1 + kXDepth);
      }
    }
    __syncwarp();
  }

  __device__ int first_row() const { return first_row_; }
  __device__ int num_rows() const { return num_rows_; }

 private:
  __device__ std::uint32_t full(int i) const { return barriers_ + 8 * i; }
  __device__ std::uint32_t empty(int i) const { return barriers_ + 8 * (kXDepth + i); }

  __device__ void copy(int step) const {
    if (step >= end_step_) return;
    const int buffer = (step - first_step_) % kXDepth;
    const auto bytes = static_cast<std::uint32_t>(num_rows_ * kRowBytes);
    arrive_expecting(full(buffer), bytes);
    bulk_copy(shared_address(buffers_ + buffer * kRows * kRowBytes),
              x_.values + (std::int64_t{step} * x_.rows + first_row_) * kPanelRowHalves, bytes,
              full(buffer));
  }

  PanelRows x_;
  unsigned char* buffers_;
  std::uint32_t barriers_;
  int first_step_;
  int end_step_;
  int first_row_;
  int num_rows_;
};

// sums += one step of the warp's panels times all rows.
template <DType kType, int kTiles>
__device__ void multiply_step(const unsigned char* buffer,
                              int step,        // in the buffer
                              int num_blocks,  // from the step on
                              const unsigned char* x,
                              float (&sums)[Shape<kType, kTiles>::kPanels][kTiles][4]) {
  using S = Shape<kType, kTiles>;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const PanelOperand<kType> first(buffer, step, num_blocks);
  const PanelOperand<kType> second(buffer + (S::kPanels - 1) * S::Buffer::kBytes, step, num_blocks);
  GRAFT_UNROLL
  for (int q = 0; q < kPanelQuads; ++q) {
    std::uint32_t a[S::kPanels][2][4];
    first.load(q, a[0]);
    if constexpr (S::kPanels == 2) second.load(q, a[1]);
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 rows = *reinterpret_cast<const uint4*>(
          x + (tile * kPanelTileRows + g) * kRowBytes + (q ^ (g % 2)) * 64 + t * 16);
      GRAFT_UNROLL
      for (int panel = 0; panel < S::kPanels; ++panel)
        multiply_quad(a[panel], rows, sums[panel][tile]);
    }
  }
}

// Adds the sums of the slices and writes y. `parts` in shared memory: [slice][row][output]
template <class X>
__device__ void write_result(const Job& job,
                             const Matrix& matrix,
                             int group,
                             int group_out,
                             int rank,
                             const X& x,
                             int slice_sums,
                             const float* parts) {
  const cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
  const int step = kThreads * job.cluster_size;
  for (int at = rank * kThreads + static_cast<int>(threadIdx.x); at < x.num_rows() * group_out;
       at += step) {
    const int row = at / group_out;
    const int out = group * group_out + at - row * group_out;
    if (out >= matrix.out) continue;
    float total = 0.0F;
    for (int block = 0; block < job.cluster_size; ++block) {
      const float* from = cluster.map_shared_rank(parts, block) + at;
      for (int slice = 0; slice < job.block_slices; ++slice)
        total += from[slice * slice_sums];
    }
    float value = total * (job.x.scales[x.first_row() + row] / kPanelHalfFactor);
    if (matrix.bias != nullptr) value += matrix.bias[out];
    matrix.y.data[(x.first_row() + row) * matrix.y.stride + out] = value;
  }
}

template <DType kType, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) panel_gemm_kernel(const __grid_constant__ Job job) {
#if __CUDA_ARCH__ >= 900
  using S = Shape<kType, kTiles>;
  using Buffer = typename S::Buffer;
  __shared__ std::uint64_t x_barriers[S::kMaxBlockSlices][2 * kXDepth];
  __shared__ std::uint64_t barriers[kWarps][S::kDepth];
  const int num_warps = kWarps / job.block_slices;  // of a slice
  const int slice_index = static_cast<int>(threadIdx.x) / kWarpSize / num_warps;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize % num_warps;
  const bool copies_x = warp == 0 && threadIdx.x % kWarpSize == 0;
  const int rank = static_cast<int>(blockIdx.x) % job.cluster_size;
  const Group group = group_of(job, static_cast<int>(blockIdx.x) / job.cluster_size);
  const Matrix& matrix = job.matrices[group.matrix];
  const PanelSlice slice = panel_slice(job.num_buffers, rank * job.block_slices + slice_index,
                                       job.cluster_size * job.block_slices);
  auto* memory = dynamic_shared<unsigned char>();
  const SliceRows<S::kRows> x(
      job, memory + kWarps * S::kWarpBytes + slice_index * S::kXBytes, x_barriers[slice_index],
      slice.first * Buffer::kSteps,
      min(slice.end * Buffer::kSteps, (job.num_blocks + kPanelStepBlocks - 1) / kPanelStepBlocks));
  if (copies_x) x.init(num_warps);
  CopyRing<S::kDepth> ring(barriers[threadIdx.x / kWarpSize]);
  unsigned char* buffers = memory + threadIdx.x / kWarpSize * S::kWarpBytes;
  // Panels beyond the last are computed from the first and not written.
  const std::uint8_t* panels[S::kPanels];
  GRAFT_UNROLL
  for (int i = 0; i < S::kPanels; ++i) {
    const int panel = (group.index * num_warps + warp) * S::kPanels + i;
    panels[i] = matrix.panels + (panel * kPanelRows < matrix.out ? panel : 0) * job.panel_bytes;
  }
  const auto fill = [&](int k) {
    const int index = slice.first + k;
    const std::uint32_t bytes = index < slice.end ? Buffer::bytes(index, job.num_blocks) : 0;
    ring.expect(k, S::kPanels * bytes);
    GRAFT_UNROLL
    for (int i = 0; i < S::kPanels; ++i) {
      ring.fill(k, buffers + (k % S::kDepth * S::kPanels + i) * Buffer::kBytes,
                panels[i] + std::int64_t{index} * Buffer::kBytes, bytes);
    }
  };
  // Weights may be read before earlier kernels have ended.
  for (int k = 0; k < S::kDepth; ++k)
    fill(k);
  begin_kernel();
  __syncthreads();
  if (copies_x) x.begin();
  float sums[S::kPanels][kTiles][4] = {};
  for (int k = 0; k < slice.end - slice.first; ++k) {
    ring.wait(k);
    const unsigned char* buffer = buffers + k % S::kDepth * S::kPanels * Buffer::kBytes;
    GRAFT_UNROLL
    for (int i = 0; i < Buffer::kSteps; ++i) {
      const int step = (slice.first + k) * Buffer::kSteps + i;
      const int num_blocks = job.num_blocks - step * kPanelStepBlocks;
      if (num_blocks <= 0) continue;
      multiply_step<kType, kTiles>(buffer, i, num_blocks, x.wait(step), sums);
      x.release(step, warp == 0);
    }
    fill(k + S::kDepth);
  }
  __syncthreads();  // the buffers are not used any more
  auto* parts = dynamic_shared<float>();
  const int group_out = num_warps * S::kWarpOut;
  const int slice_sums = S::kRows * group_out;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  GRAFT_UNROLL
  for (int i = 0; i < S::kPanels; ++i) {
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      GRAFT_UNROLL
      for (int j = 0; j < 4; ++j) {
        const int row = tile * kPanelTileRows + 2 * t + j % 2;
        const int out = (warp * S::kPanels + i) * kPanelRows + g + j / 2 * 8;
        parts[slice_index * slice_sums + row * group_out + out] = sums[i][tile][j];
      }
    }
  }
  if (job.cluster_size > 1)
    cooperative_groups::this_cluster().sync();
  else
    __syncthreads();
  write_result(job, matrix, group.index, group_out, rank, x, slice_sums, parts);
  // The other thread blocks may read this one's sums until here.
  if (job.cluster_size > 1) cooperative_groups::this_cluster().sync();
#else
  begin_kernel();
#endif
}

// As many slices as fill the GPU with one row. Does not depend on the rows, so that their bits do
// not.
template <class S>
int num_slices(std::span<const PanelMatrix> matrices, std::int64_t num_buffers) {
  static const int multiprocessors = num_multiprocessors();
  const auto num_groups = [&](int slices) {
    std::int64_t groups = 0;
    for (const PanelMatrix& matrix : matrices)
      groups += ceil_div(matrix.out, kWarps / slices * S::kWarpOut);
    return groups;
  };
  int slices = kMinSlices;
  while (slices < kMaxSlices && num_groups(2 * slices) <= multiprocessors &&
         2 * slices <= num_buffers)
    slices *= 2;
  return slices;
}

template <DType kType, int kTiles>
void launch_tiles(Job job, std::span<const PanelMatrix> matrices, Stream stream) {
  using S = Shape<kType, kTiles>;
  job.num_buffers = static_cast<int>(ceil_div(job.num_blocks, S::Buffer::kBlocks));
  const int slices = num_slices<S>(matrices, job.num_buffers);
  job.block_slices = std::min(slices, S::kMaxBlockSlices);
  job.cluster_size = slices / job.block_slices;
  int groups = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    groups += static_cast<int>(ceil_div(matrices[i].out, kWarps / job.block_slices * S::kWarpOut));
    job.matrices[i] = {.panels = reinterpret_cast<const std::uint8_t*>(matrices[i].panels),
                       .bias = matrices[i].bias,
                       .y = matrices[i].y,
                       .out = static_cast<int>(matrices[i].out),
                       .end_group = groups};
  }
  const dim3 grid(static_cast<unsigned>(groups * job.cluster_size),
                  blocks_for(job.x.rows, S::kRows));
  launch_with_shared("panel_gemm", panel_gemm_kernel<kType, kTiles>,
                     {.grid = grid,
                      .block = kThreads,
                      .shared_bytes = S::kSharedBytes,
                      .cluster = static_cast<unsigned>(job.cluster_size)},
                     stream, job);
}

using Launch = void (*)(Job job, std::span<const PanelMatrix> matrices, Stream stream);
// By the tiles of 8 rows: 1, 2, 4, 8.
using Variants = std::array<Launch, 4>;

constexpr auto kTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return Variants{launch_tiles<kType, 1>, launch_tiles<kType, 2>, launch_tiles<kType, 4>,
                  launch_tiles<kType, kMaxTiles>};
});

}  // namespace

bool has_panel_gemm() {
  constexpr std::size_t kStatic = 1024;  // barriers
  constexpr std::size_t kNeeded = std::max(Shape<DType::Q4_K, kMaxTiles>::kSharedBytes,
                                           Shape<DType::Q6_K, kMaxTiles>::kSharedBytes);
  return is_compiled_for(90, panel_gemm_kernel<DType::Q4_K, 1>) &&
         max_shared_bytes() >= kNeeded + kStatic;
}

void panel_gemm(DType dtype,
                std::int64_t in,
                std::span<const PanelMatrix> matrices,
                const PanelRows& x,
                Stream stream) {
  GRAFT_CHECK(has_panels(dtype), "no panels of ", name(dtype), " on a GPU");
  GRAFT_CHECK(matrices.size() <= kMaxPanelMatrices, matrices.size(), " matrices");
  const PackedFormat format = packing::packed_format(dtype);
  GRAFT_CHECK(in % packing::chunk_cols(format) == 0, in, " columns of ", name(dtype));
  const Job job = {.matrices = {},
                   .panel_bytes = packing::panel_bytes(format, in),
                   .num_blocks = static_cast<int>(in / kPanelBlockCols),
                   .x = x};
  const std::size_t variant = x.rows <= 8 ? 0 : x.rows <= 16 ? 1 : x.rows <= 32 ? 2 : 3;
  kTable[static_cast<std::size_t>(dtype)][variant](job, matrices, stream);
}

}  // namespace graft::kernels::cuda
