// The product of a panel with tiles of 8 rows over one step of 128 columns, and the order in which
// the products of all steps are added.

#pragma once

#include "graft/kernels/cuda/formats/panel_operands.cuh"
#include "graft/kernels/cuda/linear/panel_rows.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelTileRows = 8;  // rows of x: columns of an mma

// sums = a b, sums += a b: one mma.m16n8k16.
__device__ inline void panel_mma(const std::uint32_t (&a)[4],
                                 std::uint32_t b0,
                                 std::uint32_t b1,
                                 float (&sums)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
      : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
#endif
}
__device__ inline void panel_mma_add(const std::uint32_t (&a)[4],
                                     std::uint32_t b0,
                                     std::uint32_t b1,
                                     float (&sums)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// to += sums of an mma, those of each panel row times its factor.
__device__ inline void add_scaled(const float (&factors)[2],
                                  const float (&sums)[4],
                                  float (&to)[4]) {
  to[0] = __fmaf_rn(factors[0], sums[0], to[0]);
  to[1] = __fmaf_rn(factors[0], sums[1], to[1]);
  to[2] = __fmaf_rn(factors[1], sums[2], to[2]);
  to[3] = __fmaf_rn(factors[1], sums[3], to[3]);
}

// sums[panel][tile] += the products of one step. x(b, tile): the lane's 16 bytes of block b;
// x_sums(tile): its 8 bytes of the sums of x. A tile's bits depend neither on kPanels nor kTiles.
//
// sums[..][0..1] are panel row 2 g, [2..3] row 2 g + 1; rows 2 t and 2 t + 1 of the tile.
template <DType kType, int kPanels, int kTiles, class X, class XSums>
__device__ void multiply_step(const PanelStep<kType> (&panels)[kPanels],
                              int t,
                              const X& x,
                              const XSums& x_sums,
                              float (&sums)[kPanels][kTiles][4]) {
  using Steps = PanelSteps<kType>;
  GRAFT_UNROLL
  for (int b = 0; b < kPanelStepBlocks; ++b) {
    std::uint32_t a[kPanels][2][4];
    float scales[kPanels][Steps::kBlockGroups][2];
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      panels[p].operands(b, t, a[p]);
      GRAFT_UNROLL
      for (int i = 0; i < Steps::kBlockGroups; ++i)
        panels[p].scales(b * Steps::kBlockGroups + i, scales[p][i]);
    }
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 rows = x(b, tile);
      GRAFT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        float products[4];
        panel_mma(a[p][0], rows.x, rows.y, products);
        if constexpr (Steps::kBlockGroups == 2) {
          float upper[4];
          panel_mma(a[p][1], rows.z, rows.w, upper);
          add_scaled(scales[p][0], products, sums[p][tile]);
          add_scaled(scales[p][1], upper, sums[p][tile]);
        } else {
          panel_mma_add(a[p][1], rows.z, rows.w, products);
          add_scaled(scales[p][0], products, sums[p][tile]);
        }
      }
    }
  }
  if constexpr (Steps::kNeedsSums) {
    std::uint32_t a[kPanels][4];
    float factors[kPanels][2];
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      panels[p].sums_operand(a[p]);
      panels[p].sums_factors(factors[p]);
      factors[p][0] *= kPanelSumUnit;
      factors[p][1] *= kPanelSumUnit;
    }
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint2 rows = x_sums(tile);
      GRAFT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        float products[4];
        panel_mma(a[p], rows.x, rows.y, products);
        add_scaled(factors[p], products, sums[p][tile]);
      }
    }
  }
}

// The order of additions depends on the columns alone, so that a row's bits are the same in every
// kernel and for any number of rows. Sums are nested, each from 0 in ascending order:
//
//     unit      1 or 2 steps, multiplied one after another
//     segment   sum of units
//     quarter   sum of 1 or 2 segments
//     total     sum of 4 quarters
//
// A thread block or a warp that shares the columns with others has whole units, segments or
// quarters.
struct PanelOrder {
  int num_blocks;  // of 32 columns
  int num_steps;
  int unit_steps;
  int num_units;
  int num_segments;  // 4 or 8

  __host__ __device__ int segment_unit(int segment) const {
    return segment * num_units / num_segments;
  }
  __host__ __device__ int unit_step(int unit) const {
    const int step = unit * unit_steps;
    return step < num_steps ? step : num_steps;
  }
  __host__ __device__ int segment_step(int segment) const {
    return unit_step(segment_unit(segment));
  }
  __host__ __device__ int blocks_from(int step) const {
    return num_blocks - step * kPanelStepBlocks;
  }
};

inline constexpr int kPanelQuarters = 4;

inline PanelOrder panel_order(std::int64_t in) {
  constexpr int kOneStepUnits = 16;     // up to here a unit is one step: enough units for 16 warps
  constexpr int kMaxQuarterUnits = 12;  // up to here a quarter is one segment
  PanelOrder order = {};
  order.num_blocks = static_cast<int>(in / kPanelBlockCols);
  order.num_steps = static_cast<int>(ceil_div(in, kPanelStepCols));
  order.unit_steps = order.num_steps <= kOneStepUnits ? 1 : 2;
  order.num_units = static_cast<int>(ceil_div(order.num_steps, order.unit_steps));
  const bool is_long = order.num_units > kPanelQuarters * kMaxQuarterUnits;
  order.num_segments = is_long ? 2 * kPanelQuarters : kPanelQuarters;
  return order;
}

}  // namespace graft::kernels::cuda
