// A warp multiplies one panel (16 outputs) with the rows of a tile over one slice of the columns;
// the sums of the slices are added in ascending order. The panel goes through a ring of buffers in
// shared memory.
//
//    thread block   8 warps = 8 / num_slices panels x num_slices
//    grid           [groups of panels, tiles or pairs]

#include "graft/kernels/cuda/moe/panel_experts_mma.h"

#include <algorithm>
#include <array>

#include "graft/base/check.h"
#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panel_gemm.h"
#include "graft/kernels/cuda/linear/panel_step.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarpSize;
constexpr std::int64_t kMaxGridSide = 65535;

struct Job {
  const std::uint8_t* panels = nullptr;
  const std::uint8_t* second = nullptr;  // up projections; null: one product, no activation
  std::size_t matrix_bytes = 0;
  std::int64_t panel_bytes = 0;
  int out = 0;
  int num_blocks = 0;  // of 32 columns
  int num_buffers = 0;
  int num_slices = 1;  // 1, 2, 4 or 8
  PanelRows x;
  int products_per_x = 1;
  float* y = nullptr;                        // [pairs, out]
  RowTiles tiles = {};                       // null: pair i is a tile …
  const std::int32_t* matrix_ids = nullptr;  // … of matrix matrix_ids[i]
};

// The rows of a thread block: pairs of one expert.
struct Tile {
  int matrix = 0;
  int first = 0;
  int count = 0;
};

__device__ Tile tile_of(const Job& job) {
  const auto index = static_cast<int>(blockIdx.y);
  if (job.tiles.tiles == nullptr) {
    const int matrix = job.matrix_ids[index];
    return {.matrix = matrix, .first = index, .count = matrix < 0 ? 0 : 1};
  }
  const RowTile tile = job.tiles.tiles[index];
  return {.matrix = tile.matrix, .first = tile.first, .count = tile.count};
}

__device__ int pair_of(const Job& job, const Tile& tile, int i) {
  return job.tiles.tiles == nullptr ? tile.first : job.tiles.row_ids[tile.first + i];
}

// What is copied to shared memory at a time: a chunk or a step of a panel.
template <DType kType>
struct PanelBuffer {
  using Steps = PanelSteps<kType>;
  static constexpr int kBytes = Steps::kChunkBytes;
  static constexpr int kSteps = Steps::kChunkSteps;
  static constexpr int kBlocks = kSteps * kPanelStepBlocks;

  // Of buffer `index` of a panel with num_blocks blocks.
  static __device__ std::uint32_t bytes(int index, int num_blocks) {
    const int blocks = min(num_blocks - index * kBlocks, static_cast<int>(kBlocks));
    return Steps::kIsSuper ? kBytes : blocks * Steps::kBlockStride;
  }
};

// Buffers [first, end) of a panel.
struct PanelSlice {
  int first;
  int end;
};

__device__ PanelSlice panel_slice(int num_buffers, int slice, int num_slices) {
  return {.first = slice * num_buffers / num_slices, .end = (slice + 1) * num_buffers / num_slices};
}

template <DType kType, int kMatrices>
struct Shape {
  using Buffer = PanelBuffer<kType>;
  static constexpr int kBufferBytes = kMatrices * Buffer::kBytes;
  // Enough for the latency of memory at two or three thread blocks per multiprocessor.
  static constexpr int kDepth = kBufferBytes > 3000 ? 2 : 4;
  static constexpr int kWarpBytes = kDepth * kBufferBytes;
  static constexpr int kPart = kPanelRows * kPanelTileRows;
  static constexpr std::size_t kSharedBytes =
      std::max(kWarps * kWarpBytes, kWarps* kMatrices* kPart * 4);
};

// Adds the sums of the slices and writes y. parts: [warp][matrix][row][output]
template <DType kType, int kMatrices>
__device__ void write_rows(const Job& job, const Tile& tile, const float* parts) {
  constexpr int kPart = kPanelRows * kPanelTileRows;
  const int num_panels = kWarps / job.num_slices;
  for (int at = static_cast<int>(threadIdx.x); at < num_panels * kPart; at += kThreads) {
    const int panel = at / kPart;
    const int row = at % kPart / kPanelRows;
    const int out =
        (static_cast<int>(blockIdx.x) * num_panels + panel) * kPanelRows + at % kPanelRows;
    if (row >= tile.count || out >= job.out) continue;
    float totals[kMatrices] = {};
    for (int slice = 0; slice < job.num_slices; ++slice) {
      GRAFT_UNROLL
      for (int m = 0; m < kMatrices; ++m)
        totals[m] += parts[((panel * job.num_slices + slice) * kMatrices + m) * kPart + at % kPart];
    }
    const int pair = pair_of(job, tile, row);
    const float scale = job.x.scales[pair / job.products_per_x] * PanelSteps<kType>::kUnit;
    float value = totals[0] * scale;
    if constexpr (kMatrices == 2) value = swiglu(value, totals[1] * scale);
    job.y[std::int64_t{pair} * job.out + out] = value;
  }
}

template <DType kType, int kMatrices>
__global__ void __launch_bounds__(kThreads) panel_experts_kernel(const __grid_constant__ Job job) {
  begin_kernel();
#if __CUDA_ARCH__ >= 900
  using S = Shape<kType, kMatrices>;
  using Buffer = typename S::Buffer;
  using Steps = PanelSteps<kType>;
  __shared__ std::uint64_t barriers[kWarps][S::kDepth];
  const Tile tile = tile_of(job);
  if (tile.count == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int panel =
      static_cast<int>(blockIdx.x) * (kWarps / job.num_slices) + warp / job.num_slices;
  PanelSlice slice = panel_slice(job.num_buffers, warp % job.num_slices, job.num_slices);
  if (panel * kPanelRows >= job.out) slice.end = slice.first;
  const std::uint8_t* panels[kMatrices];
  GRAFT_UNROLL
  for (int m = 0; m < kMatrices; ++m) {
    panels[m] = (m == 0 ? job.panels : job.second) +
                static_cast<std::size_t>(tile.matrix) * job.matrix_bytes + panel * job.panel_bytes;
  }
  unsigned char* buffers = dynamic_shared<unsigned char>() + warp * S::kWarpBytes;
  CopyRing<S::kDepth> ring(barriers[warp]);
  const auto fill = [&](int k) {
    const int index = slice.first + k;
    const std::uint32_t bytes = index < slice.end ? Buffer::bytes(index, job.num_blocks) : 0;
    ring.expect(k, kMatrices * bytes);
    GRAFT_UNROLL
    for (int m = 0; m < kMatrices; ++m) {
      ring.fill(k, buffers + k % S::kDepth * S::kBufferBytes + m * Buffer::kBytes,
                panels[m] + std::int64_t{index} * Buffer::kBytes, bytes);
    }
  };
  for (int k = 0; k < S::kDepth; ++k)
    fill(k);
  const int x_row = g < tile.count ? pair_of(job, tile, g) / job.products_per_x : 0;
  float sums[kMatrices][1][4] = {};
  for (int k = 0; k < slice.end - slice.first; ++k) {
    ring.wait(k);
    const unsigned char* buffer = buffers + k % S::kDepth * S::kBufferBytes;
    GRAFT_UNROLL
    for (int i = 0; i < Buffer::kSteps; ++i) {
      const int step = (slice.first + k) * Buffer::kSteps + i;
      uint4 rows[kPanelStepBlocks];
      const Half* values = panel_values(job.x, step, x_row) + t * 8;
      GRAFT_UNROLL
      for (int b = 0; b < kPanelStepBlocks; ++b) {
        rows[b] =
            g < tile.count
                ? __ldg(reinterpret_cast<const uint4*>(values + (b ^ x_row % 2) * kPanelBlockCols))
                : make_uint4(0, 0, 0, 0);
      }
      const uint2 row_sums =
          g < tile.count
              ? __ldg(reinterpret_cast<const uint2*>(panel_sums(job.x, step, x_row) + t * 4))
              : make_uint2(0, 0);
      GRAFT_UNROLL
      for (int m = 0; m < kMatrices; ++m) {
        const unsigned char* chunk = buffer + m * Buffer::kBytes;
        const PanelStep<kType> one[1] = {
            PanelStep<kType>({.header = chunk,
                              .codes = chunk + Steps::kHeaderBytes + i * Steps::kCodeBytes,
                              .first_block = i * kPanelStepBlocks,
                              .num_blocks = job.num_blocks - step * kPanelStepBlocks},
                             g, t)};
        float(&to)[1][1][4] = reinterpret_cast<float(&)[1][1][4]>(sums[m]);
        multiply_step<kType>(
            one, t, [&](int b, int) { return rows[b]; }, [&](int) { return row_sums; }, to);
      }
    }
    __syncwarp();
    fill(k + S::kDepth);
  }
  __syncthreads();  // the buffers are not used any more
  auto* parts = dynamic_shared<float>();
  GRAFT_UNROLL
  for (int m = 0; m < kMatrices; ++m) {
    GRAFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = 2 * t + i % 2;
      parts[(warp * kMatrices + m) * S::kPart + row * kPanelRows + 2 * g + i / 2] = sums[m][0][i];
    }
  }
  __syncthreads();
  write_rows<kType, kMatrices>(job, tile, parts);
#endif
}

// Depends on the columns alone, so that a row's bits do not depend on the batch.
int num_slices(std::int64_t num_buffers) {
  return num_buffers >= 8 ? 8 : num_buffers >= 4 ? 4 : num_buffers >= 2 ? 2 : 1;
}

using Launch = void (*)(Job job, std::int64_t num_tiles, Stream stream);

template <DType kType, int kMatrices>
void launch_experts(Job job, std::int64_t num_tiles, Stream stream) {
  using S = Shape<kType, kMatrices>;
  job.num_buffers = static_cast<int>(ceil_div(job.num_blocks, S::Buffer::kBlocks));
  job.num_slices = num_slices(job.num_buffers);
  const dim3 grid(blocks_for(job.out, kWarps / job.num_slices * kPanelRows),
                  static_cast<unsigned>(num_tiles));
  launch_with_shared("panel_experts_mma", panel_experts_kernel<kType, kMatrices>,
                     {grid, kThreads, S::kSharedBytes}, stream, job);
}

using Variants = std::array<Launch, 2>;  // by the number of matrices

constexpr auto kTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return Variants{launch_experts<kType, 1>, launch_experts<kType, 2>};
});

// Arrays in scratch memory.
struct Scratch {
  PanelRows x;               // of routed.x
  float* inner = nullptr;    // [pairs, intermediate]
  PanelRows inner_rows;      // the same as panel rows
  float* results = nullptr;  // [pairs, hidden]
  PairGroups groups;
  std::size_t bytes = 0;
};

// With memory null only Scratch::bytes is valid.
Scratch scratch_at(const PanelExpertsJob& job, std::int64_t rows, void* memory) {
  const std::int64_t pairs = rows * job.top_k;
  std::size_t used = 0;
  const auto allocate = [&](std::size_t bytes) {
    auto* at = static_cast<std::byte*>(memory) + used;
    used += aligned_bytes(bytes);
    return memory == nullptr ? nullptr : static_cast<void*>(at);
  };
  const auto words = [](std::int64_t count) { return static_cast<std::size_t>(count) * 4; };
  Scratch s;
  s.x = panel_rows_at(allocate(panel_rows_bytes(rows, job.hidden)), rows, job.hidden);
  s.inner = static_cast<float*>(allocate(words(pairs * job.intermediate)));
  s.inner_rows =
      panel_rows_at(allocate(panel_rows_bytes(pairs, job.intermediate)), pairs, job.intermediate);
  s.results = static_cast<float*>(allocate(words(pairs * job.hidden)));
  s.groups.counts = static_cast<std::int32_t*>(allocate(words(job.num_matrices)));
  s.groups.order = static_cast<std::int32_t*>(allocate(words(pairs)));
  const std::int64_t tiles = max_row_tiles(pairs, job.num_matrices, kPanelTileRows);
  s.groups.tiles =
      static_cast<RowTile*>(allocate(static_cast<std::size_t>(tiles) * sizeof(RowTile)));
  s.bytes = used;
  return s;
}

Job job_of(const PanelMatrices& matrices, std::int64_t out, std::int64_t in) {
  const PackedFormat format = packing::packed_format(matrices.dtype);
  return {.panels = reinterpret_cast<const std::uint8_t*>(matrices.panels),
          .matrix_bytes = matrices.matrix_bytes,
          .panel_bytes = packing::panel_bytes(format, in),
          .out = static_cast<int>(out),
          .num_blocks = static_cast<int>(in / kPanelBlockCols),
          .x = {}};
}

}  // namespace

bool has_panel_experts_mma(const PanelExpertsJob& job) {
  return has_panels(job.gate.dtype) && job.up.dtype == job.gate.dtype &&
         has_panels(job.down.dtype) && has_panel_gemm();
}

std::size_t panel_experts_mma_bytes(const PanelExpertsJob& job, std::int64_t rows) {
  return scratch_at(job, rows, nullptr).bytes;
}

void panel_experts_mma(const PanelExpertsJob& job,
                       const RoutedRows& routed,
                       const PanelRows* x,
                       void* scratch,
                       Stream stream) {
  if (routed.rows == 0) return;
  GRAFT_CHECK(job.gate.dtype == job.up.dtype && job.gate.matrix_bytes == job.up.matrix_bytes,
              "gate and up differ");
  const Scratch s = scratch_at(job, routed.rows, scratch);
  const std::int64_t pairs = routed.rows * job.top_k;
  std::int64_t num_tiles = pairs;
  RowTiles tiles = {};
  if (routed.rows > kMaxPairwiseTokens) {
    num_tiles = max_row_tiles(pairs, job.num_matrices, kPanelTileRows);
    group_pairs(routed.expert_ids, pairs, job.num_matrices, kPanelTileRows, s.groups, stream);
    tiles = {.tiles = s.groups.tiles, .count = num_tiles, .row_ids = s.groups.order};
  }
  GRAFT_CHECK(num_tiles <= kMaxGridSide, num_tiles, " tiles");
  if (x == nullptr) to_panel_rows(routed.x, s.x, job.hidden, stream);
  const auto multiply = [&](const PanelMatrices& matrices, std::size_t variant, Job one) {
    one.tiles = tiles;
    one.matrix_ids = routed.expert_ids;
    kTable[static_cast<std::size_t>(matrices.dtype)][variant](one, num_tiles, stream);
  };
  Job gate_up = job_of(job.gate, job.intermediate, job.hidden);
  gate_up.second = reinterpret_cast<const std::uint8_t*>(job.up.panels);
  gate_up.x = x == nullptr ? s.x : *x;
  gate_up.products_per_x = static_cast<int>(job.top_k);
  gate_up.y = s.inner;
  multiply(job.gate, 1, gate_up);
  to_panel_rows({s.inner, job.intermediate}, s.inner_rows, job.intermediate, stream);
  Job down = job_of(job.down, job.hidden, job.intermediate);
  down.x = s.inner_rows;
  down.y = s.results;
  multiply(job.down, 0, down);
  sum_pairs(routed, s.results, job.top_k, job.hidden, stream);
}

}  // namespace graft::kernels::cuda
