// What the kernels of panel_experts_mma() share: one product of the pairs with their experts.
//
// The columns are cut into four quarters of whole chunks, multiplied one after another inside; the
// sums of the quarters are added in ascending order. This depends on the columns alone, so a row's
// bits are the same in both kernels.

#pragma once

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/kernels/cuda/linear/panels/panel_step.cuh"
#include "graft/kernels/cuda/silu.cuh"

namespace graft::kernels::cuda {

struct ExpertsProduct {
  const std::uint8_t* panels = nullptr;
  const std::uint8_t* second = nullptr;  // up projections; null: one product, no activation
  std::size_t matrix_bytes = 0;
  std::int64_t panel_bytes = 0;
  int out = 0;
  int num_blocks = 0;  // of 32 columns
  PanelRows x;
  int products_per_x = 1;
  float* y = nullptr;                        // [pairs, out]
  RowTiles tiles = {};                       // null: pair i is a tile …
  const std::int32_t* matrix_ids = nullptr;  // … of matrix matrix_ids[i]
  const float* bias = nullptr;               // [experts, out]; null: none
  const float* second_bias = nullptr;        // of `second`
  const std::int32_t* bias_ids = nullptr;    // [pairs], experts; null: the matrices are the experts
  float swiglu_limit = 0.0F;
  bool limits_silu = false;
  int panel_pairs = 0;                        // PanelExpertsJob::panel_pairs
  const unsigned char* row_pieces = nullptr;  // x for panel_experts_wgmma(): core_rows.cuh
};

// The rows of a thread block: pairs of one expert.
struct ExpertsTile {
  int matrix = 0;
  int first = 0;
  int count = 0;
};

__device__ inline ExpertsTile tile_of(const ExpertsProduct& job) {
  const auto index = static_cast<int>(blockIdx.y);
  if (job.tiles.tiles == nullptr) {
    const int matrix = job.matrix_ids[index];
    return {.matrix = matrix, .first = index, .count = matrix < 0 ? 0 : 1};
  }
  const RowTile tile = job.tiles.tiles[index];
  return {.matrix = tile.matrix, .first = tile.first, .count = tile.count};
}

__device__ inline int pair_of(const ExpertsProduct& job, const ExpertsTile& tile, int i) {
  return job.tiles.tiles == nullptr ? tile.first : job.tiles.row_ids[tile.first + i];
}

// Chunks (types with super-blocks) or steps of a panel: what is copied to shared memory at a time.
template <DType kType>
struct ExpertsChunks {
  using Steps = PanelSteps<kType>;
  static constexpr int kBlocks = Steps::kChunkSteps * kPanelStepBlocks;

  static __device__ int count(const ExpertsProduct& job) {
    return (job.num_blocks + kBlocks - 1) / kBlocks;
  }
  // The first chunk of a quarter.
  static __device__ int first(const ExpertsProduct& job, int quarter) {
    return quarter * count(job) / kPanelQuarters;
  }
  // The last step of types without super-blocks may be short.
  static __device__ std::uint32_t bytes(const ExpertsProduct& job, int chunk) {
    const int blocks = min(job.num_blocks - chunk * kBlocks, static_cast<int>(kBlocks));
    return Steps::kIsSuper ? Steps::kChunkBytes : blocks * Steps::kBlockStride;
  }
  static __device__ PanelStep<kType> load(
      const ExpertsProduct& job, const unsigned char* chunk, int step, int g, int t) {
    const int half = step % Steps::kChunkSteps;
    return PanelStep<kType>({.header = chunk,
                             .codes = chunk + Steps::kHeaderBytes + half * Steps::kCodeBytes,
                             .first_block = half * kPanelStepBlocks,
                             .num_blocks = job.num_blocks - step * kPanelStepBlocks},
                            g, t);
  }
};

// Panel `panel` of a matrix of the expert.
__device__ inline const std::uint8_t* expert_panel(const ExpertsProduct& job,
                                                   const ExpertsTile& tile,
                                                   bool is_second,
                                                   int panel) {
  return (is_second ? job.second : job.panels) +
         static_cast<std::size_t>(tile.matrix) * job.matrix_bytes + panel * job.panel_bytes;
}

// y of an output of a pair of the tile. totals: of the matrices; scale: of the row of x
template <DType kType, int kMatrices>
__device__ float expert_output(const ExpertsProduct& job,
                               const ExpertsTile& tile,
                               int pair,
                               int out,
                               float scale,
                               const float (&totals)[kMatrices]) {
  float value = totals[0] * scale;
  float second = kMatrices == 2 ? totals[kMatrices - 1] * scale : 0.0F;
  if (job.bias != nullptr) {
    const int expert = job.bias_ids == nullptr ? tile.matrix : job.bias_ids[pair];
    const std::int64_t at = std::int64_t{expert} * job.out + out;
    value += job.bias[at];
    if constexpr (kMatrices == 2) second += job.second_bias[at];
  }
  if constexpr (kMatrices == 2) value = swiglu(value, second, job.swiglu_limit, job.limits_silu);
  return value;
}

// Writes y of row `row` of the tile.
template <DType kType, int kMatrices>
__device__ void write_pair(const ExpertsProduct& job,
                           const ExpertsTile& tile,
                           int row,
                           int out,
                           const float (&totals)[kMatrices]) {
  const int pair = pair_of(job, tile, row);
  const float scale = job.x.scales[pair / job.products_per_x] * PanelSteps<kType>::kUnit;
  job.y[std::int64_t{pair} * job.out + out] =
      expert_output<kType>(job, tile, pair, out, scale, totals);
}

// panel_experts_wide.cu: tiles of kWideExpertRows rows.
inline constexpr int kWideExpertRows = 32;
void panel_experts_wide(DType dtype,
                        const ExpertsProduct& job,
                        std::int64_t num_tiles,
                        Stream stream);

// panel_experts_wgmma.cu: types of can_use_wgmma(), tiles of up to tile_rows rows, 32 or 64, with
// job.row_pieces.
void panel_experts_wgmma(
    DType dtype, const ExpertsProduct& job, std::int64_t num_tiles, int tile_rows, Stream stream);

}  // namespace graft::kernels::cuda
