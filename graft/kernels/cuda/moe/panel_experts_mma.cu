// Tiles of up to 8 rows: a warp multiplies one panel of each matrix (16 outputs) with the rows of a
// tile over one quarter of the columns. The panels go through a ring of buffers in shared memory.
//
//    thread block   8 warps = 2 panels x 4 quarters; some pairs of panels one after another, so
//                   that those to come are copied meanwhile
//    grid           [groups of pairs of panels, tiles or pairs]

#include "graft/kernels/cuda/moe/panel_experts_mma.h"

#include <algorithm>
#include <array>

#include "graft/base/check.h"
#include "graft/kernels/cuda/formats/panel_types.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm.h"
#include "graft/kernels/cuda/linear/panels/panel_wgmma.cuh"
#include "graft/kernels/cuda/moe/panel_experts_job.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kPanels = 2;  // of a thread block
constexpr int kWarps = kPanels * kPanelQuarters;
constexpr int kThreads = kWarps * kWarpSize;
constexpr std::int64_t kMaxGridSide = 65535;
constexpr std::int64_t kBlocksPerSm = 8;
constexpr std::int64_t kMaxPanelPairs = 8;  // of a thread block
// From this many pairs per expert on, tiles of 32 rows are filled well enough.
constexpr std::int64_t kMinWidePairs = 12;
// Up to here tiles of 32 rows hold those of most experts.
constexpr std::int64_t kMaxShortPairs = 20;

template <DType kType, int kMatrices>
struct Shape {
  using Steps = PanelSteps<kType>;
  static constexpr int kBufferBytes = kMatrices * Steps::kChunkBytes;
  // Enough for the latency of memory at two or three thread blocks per multiprocessor.
  static constexpr int kDepth = kBufferBytes > 3000 ? 2 : 4;
  static constexpr int kWarpBytes = kDepth * kBufferBytes;
  static constexpr int kPart = kPanelRows * kPanelTileRows;
  static constexpr int kParts = kWarps * kMatrices * kPart;  // of a pair of panels
  static constexpr std::size_t kSharedBytes = kWarps * kWarpBytes + 2 * kParts * 4;
};

// The lane's part of a row of x in one step.
struct RowStep {
  uint4 values[kPanelStepBlocks];
  uint2 sums;

  __device__ RowStep(const PanelRows& x, int step, int row, int t, bool is_there) {
    const Half* from = panel_values(x, step, row) + t * 8;
    GRAFT_UNROLL
    for (int b = 0; b < kPanelStepBlocks; ++b) {
      values[b] =
          is_there ? __ldg(reinterpret_cast<const uint4*>(from + (b ^ row % 2) * kPanelBlockCols))
                   : make_uint4(0, 0, 0, 0);
    }
    sums = is_there ? __ldg(reinterpret_cast<const uint2*>(panel_sums(x, step, row) + t * 4))
                    : make_uint2(0, 0);
  }
};

// Adds the sums of the quarters and writes y. parts: [warp][matrix][row][output]
template <DType kType, int kMatrices>
__device__ void write_rows(const ExpertsProduct& job,
                           const ExpertsTile& tile,
                           int pair,
                           const float* parts) {
  constexpr int kPart = kPanelRows * kPanelTileRows;
  for (int at = static_cast<int>(threadIdx.x); at < kPanels * kPart; at += kThreads) {
    const int panel = at / kPart;
    const int row = at % kPart / kPanelRows;
    const int out = (pair * kPanels + panel) * kPanelRows + at % kPanelRows;
    if (row >= tile.count || out >= job.out) continue;
    float totals[kMatrices] = {};
    GRAFT_UNROLL
    for (int quarter = 0; quarter < kPanelQuarters; ++quarter) {
      GRAFT_UNROLL
      for (int m = 0; m < kMatrices; ++m)
        totals[m] +=
            parts[((panel * kPanelQuarters + quarter) * kMatrices + m) * kPart + at % kPart];
    }
    write_pair<kType>(job, tile, row, out, totals);
  }
}

template <DType kType, int kMatrices>
__global__ void __launch_bounds__(kThreads)
    panel_experts_kernel(const __grid_constant__ ExpertsProduct job) {
  begin_kernel();
#if __CUDA_ARCH__ >= 900
  using S = Shape<kType, kMatrices>;
  using Steps = typename S::Steps;
  using Chunks = ExpertsChunks<kType>;
  __shared__ std::uint64_t barriers[kWarps][S::kDepth];
  const ExpertsTile tile = tile_of(job);
  if (tile.count == 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int quarter = warp % kPanelQuarters;
  const int first = Chunks::first(job, quarter);
  const int num_chunks = Chunks::first(job, quarter + 1) - first;
  const int num_pairs = (job.out + kPanels * kPanelRows - 1) / (kPanels * kPanelRows);
  const int first_pair = static_cast<int>(blockIdx.x) * job.panel_pairs;
  const int end_pair = min(first_pair + job.panel_pairs, num_pairs);
  const int last_panel = (job.out - 1) / kPanelRows;
  unsigned char* buffers = dynamic_shared<unsigned char>() + warp * S::kWarpBytes;
  auto* parts = reinterpret_cast<float*>(dynamic_shared<unsigned char>() + kWarps * S::kWarpBytes);
  CopyRing<S::kDepth> ring(barriers[warp]);
  // A panel beyond the last is computed from the last and not written.
  const auto panel_of_pair = [&](int pair) {
    return min(pair * kPanels + warp / kPanelQuarters, last_panel);
  };
  int next_pair = first_pair;
  int next_chunk = 0;
  int next = 0;
  const auto fill_next = [&] {
    if (next_pair == end_pair || num_chunks == 0) return;
    const std::uint32_t bytes = Chunks::bytes(job, first + next_chunk);
    ring.expect(next, kMatrices * bytes);
    GRAFT_UNROLL
    for (int m = 0; m < kMatrices; ++m) {
      ring.fill(next, buffers + next % S::kDepth * S::kBufferBytes + m * Steps::kChunkBytes,
                expert_panel(job, tile, m == 1, panel_of_pair(next_pair)) +
                    std::int64_t{first + next_chunk} * Steps::kChunkBytes,
                bytes);
    }
    ++next;
    if (++next_chunk == num_chunks) {
      next_chunk = 0;
      ++next_pair;
    }
  };
  for (int k = 0; k < S::kDepth; ++k)
    fill_next();
  const int x_row = g < tile.count ? pair_of(job, tile, g) / job.products_per_x : 0;
  int turn = 0;
  for (int pair = first_pair; pair < end_pair; ++pair) {
    PieceSums<kType, 1, 1> pieces[kMatrices];
    float sums[kMatrices][1][1][4] = {};
    for (int c = 0; c < num_chunks; ++c, ++turn) {
      ring.wait(turn);
      const unsigned char* buffer = buffers + turn % S::kDepth * S::kBufferBytes;
      GRAFT_UNROLL
      for (int i = 0; i < Steps::kChunkSteps; ++i) {
        const int step = (first + c) * Steps::kChunkSteps + i;
        const RowStep x(job.x, step, x_row, t, g < tile.count);
        GRAFT_UNROLL
        for (int m = 0; m < kMatrices; ++m) {
          const PanelStep<kType> one[1] = {
              Chunks::load(job, buffer + m * Steps::kChunkBytes, step, g, t)};
          pieces[m].add(
              one, i, t, [&](int b, int) { return x.values[b]; }, [&](int) { return x.sums; });
          if (Steps::kIsSuper && i == Steps::kChunkSteps - 1) {
            pieces[m].finish(one, Steps::kChunkSteps);
            pieces[m].move_to(sums[m]);
          }
        }
      }
      __syncwarp();
      fill_next();
    }
    if constexpr (!Steps::kIsSuper) {
      GRAFT_UNROLL
      for (int m = 0; m < kMatrices; ++m)
        pieces[m].move_to(sums[m]);
    }
    // Two buffers: the parts of the pair before may still be read.
    float* own = parts + (pair - first_pair) % 2 * S::kParts;
    GRAFT_UNROLL
    for (int m = 0; m < kMatrices; ++m) {
      GRAFT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = 2 * t + i % 2;
        own[(warp * kMatrices + m) * S::kPart + row * kPanelRows + 2 * g + i / 2] =
            sums[m][0][0][i];
      }
    }
    __syncthreads();
    write_rows<kType, kMatrices>(job, tile, pair, own);
  }
#endif
}

using Launch = void (*)(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream);

template <DType kType, int kMatrices>
void launch_experts(const ExpertsProduct& job, std::int64_t num_tiles, Stream stream) {
  using S = Shape<kType, kMatrices>;
  // Several pairs of panels per thread block as soon as all multiprocessors have plenty.
  static const int multiprocessors = num_multiprocessors();
  const std::int64_t pairs = ceil_div(job.out, kPanels * kPanelRows);
  ExpertsProduct product = job;
  if (product.panel_pairs == 0) {
    product.panel_pairs = static_cast<int>(std::clamp<std::int64_t>(
        pairs * num_tiles / (kBlocksPerSm * multiprocessors), 1, kMaxPanelPairs));
  }
  const dim3 grid(blocks_for(pairs, product.panel_pairs), static_cast<unsigned>(num_tiles));
  launch_with_shared("panel_experts_mma", panel_experts_kernel<kType, kMatrices>,
                     {grid, kThreads, S::kSharedBytes}, stream, product);
}

using Variants = std::array<Launch, 2>;  // by the number of matrices

constexpr auto kTable = panel_type_table<Variants>([](auto type) {
  constexpr DType kType = decltype(type)::kType;
  return Variants{launch_experts<kType, 1>, launch_experts<kType, 2>};
});

bool is_wide(const PanelExpertsJob& job, std::int64_t pairs) {
  return pairs >= kMinWidePairs * job.num_matrices;
}

bool uses_wgmma(const PanelExpertsJob& job, std::int64_t pairs) {
  return is_wide(job, pairs) && has_panel_experts_wgmma(job);
}

// Rows of a tile: as many as most experts have, so that their weights are read once.
int tile_rows_of(const PanelExpertsJob& job, std::int64_t pairs) {
  if (!is_wide(job, pairs)) return kPanelTileRows;
  const bool is_tall = uses_wgmma(job, pairs) && pairs > kMaxShortPairs * job.num_matrices;
  return is_tall ? 2 * kWideExpertRows : kWideExpertRows;
}

// Arrays in scratch memory.
struct Scratch {
  PanelRows x;                 // of routed.x
  float* inner = nullptr;      // [pairs, intermediate]
  PanelRows inner_rows;        // the same as panel rows
  void* row_pieces = nullptr;  // of x, then of inner_rows
  float* results = nullptr;    // [pairs, hidden]
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
  if (uses_wgmma(job, pairs)) {
    s.row_pieces = allocate(
        std::max(row_pieces_bytes(rows, job.hidden), row_pieces_bytes(pairs, job.intermediate)));
  }
  s.groups.counts = static_cast<std::int32_t*>(allocate(words(job.num_matrices)));
  s.groups.order = static_cast<std::int32_t*>(allocate(words(pairs)));
  const std::int64_t tiles = max_row_tiles(pairs, job.num_matrices, kPanelTileRows);
  s.groups.tiles =
      static_cast<RowTile*>(allocate(static_cast<std::size_t>(tiles) * sizeof(RowTile)));
  s.bytes = used;
  return s;
}

ExpertsProduct product_of(const PanelMatrices& matrices, std::int64_t out, std::int64_t in) {
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

bool has_panel_experts_wgmma(const PanelExpertsJob& job) {
  return can_use_wgmma(job.gate.dtype) && can_use_wgmma(job.down.dtype);
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
  const int tile_rows = tile_rows_of(job, pairs);
  const bool has_wide_tiles = is_wide(job, pairs);
  std::int64_t num_tiles = pairs;
  RowTiles tiles = {};
  if (has_wide_tiles || routed.rows > kMaxPairwiseTokens) {
    num_tiles = max_row_tiles(pairs, job.num_matrices, tile_rows);
    group_pairs(routed.expert_ids, pairs, job.num_matrices, tile_rows, s.groups, stream);
    tiles = {.tiles = s.groups.tiles, .count = num_tiles, .row_ids = s.groups.order};
  }
  GRAFT_CHECK(num_tiles <= kMaxGridSide, num_tiles, " tiles");
  if (x == nullptr) to_panel_rows(routed.x, s.x, job.hidden, stream);
  const auto multiply = [&](const PanelMatrices& matrices, std::size_t variant,
                            ExpertsProduct one) {
    one.tiles = tiles;
    one.matrix_ids = routed.expert_ids;
    one.bias_ids = routed.bias_ids;
    one.panel_pairs = job.panel_pairs;
    if (s.row_pieces != nullptr) {
      one.row_pieces = static_cast<const unsigned char*>(s.row_pieces);
      to_row_pieces(one.x, std::int64_t{one.num_blocks} * kPanelBlockCols, s.row_pieces, stream);
      return panel_experts_wgmma(matrices.dtype, one, num_tiles, tile_rows, stream);
    }
    if (has_wide_tiles) return panel_experts_wide(matrices.dtype, one, num_tiles, stream);
    kTable[static_cast<std::size_t>(matrices.dtype)][variant](one, num_tiles, stream);
  };
  ExpertsProduct gate_up = product_of(job.gate, job.intermediate, job.hidden);
  gate_up.second = reinterpret_cast<const std::uint8_t*>(job.up.panels);
  gate_up.x = x == nullptr ? s.x : *x;
  gate_up.products_per_x = static_cast<int>(job.top_k);
  gate_up.y = s.inner;
  gate_up.bias = job.epilogue.gate_bias;
  gate_up.second_bias = job.epilogue.up_bias;
  gate_up.swiglu_limit = job.epilogue.swiglu_limit;
  gate_up.limits_silu = job.epilogue.limits_silu;
  multiply(job.gate, 1, gate_up);
  to_panel_rows({s.inner, job.intermediate}, s.inner_rows, job.intermediate, stream);
  ExpertsProduct down = product_of(job.down, job.hidden, job.intermediate);
  down.x = s.inner_rows;
  down.y = s.results;
  down.bias = job.epilogue.down_bias;
  multiply(job.down, 0, down);
  sum_pairs(routed, s.results, job.top_k, job.hidden, stream);
}

}  // namespace graft::kernels::cuda
