// The product of a panel with tiles of 8 rows over one step of 128 columns, and the order in which
// the products of all steps are added.

#pragma once

#include "graft/kernels/cuda/formats/panel_operands.cuh"
#include "graft/kernels/cuda/linear/panels/panel_rows.cuh"

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
    float scales[kPanels][2];
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      panels[p].operands(b, t, a[p]);
      panels[p].scales(b, scales[p]);
    }
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 rows = x(b, tile);
      GRAFT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        float products[4];
        panel_mma(a[p][0], rows.x, rows.y, products);
        panel_mma_add(a[p][1], rows.z, rows.w, products);
        add_scaled(scales[p], products, sums[p][tile]);
      }
    }
  }
  if constexpr (Steps::kNeedsSums) {
    std::uint32_t a[kPanels][4];
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p)
      panels[p].sums_operand(a[p]);
    const float factor = -Steps::kMinFactor * kPanelSumUnit;
    const float factors[2] = {factor, factor};
    GRAFT_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint2 rows = x_sums(tile);
      GRAFT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        float products[4];
        panel_mma(a[p], rows.x, rows.y, products);
        add_scaled(factors, products, sums[p][tile]);
      }
    }
  }
}

// The sums of a piece of the columns, from 0. Of types with super-blocks a piece is one or both
// steps of a chunk: the tensor cores add codes times integer scales, then come d and the mins.
// Of other types it is any number of steps.
template <DType kType, int kPanels, int kTiles>
class PieceSums {
 public:
  using Steps = PanelSteps<kType>;
  using Sums = float[kPanels][kTiles][4];

  const __device__ Sums& sums() const { return sums_; }

  // Adds a step; `index` is its number in the piece, a constant.
  template <class X, class XSums>
  __device__ void add(const PanelStep<kType> (&panels)[kPanels],
                      int index,
                      int t,
                      const X& x,
                      const XSums& x_sums) {
    if constexpr (!Steps::kIsSuper) {
      multiply_step<kType>(panels, t, x, x_sums, sums_);
    } else {
      GRAFT_UNROLL
      for (int b = 0; b < kPanelStepBlocks; ++b)
        add_block(panels, b, t, x);
      if constexpr (Steps::kNeedsSums) {
        GRAFT_UNROLL
        for (int p = 0; p < kPanels; ++p)
          panels[p].mins_operand(mins_[index][p]);
        GRAFT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile)
          x_sums_[index][tile] = x_sums(tile);
      }
    }
  }

  // After the last step, number count - 1, of which `panels` are.
  __device__ void finish(const PanelStep<kType> (&panels)[kPanels], int count) {
    if constexpr (Steps::kIsSuper) {
      GRAFT_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        float d[2];
        panels[p].scales(0, d);
        GRAFT_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          GRAFT_UNROLL
          for (int i = 0; i < 4; ++i)
            sums_[p][tile][i] = __fmul_rn(sums_[p][tile][i], d[i / 2]);  // not an fma
          if constexpr (Steps::kNeedsSums) {
            GRAFT_UNROLL
            for (int step = 0; step < Steps::kChunkSteps; ++step) {
              if (step >= count) continue;
              const std::uint32_t(&mins)[2] = mins_[step][p];
              const std::uint32_t a[4] = {mins[0], mins[1], mins[0], mins[1]};
              const uint2 rows = x_sums_[step][tile];
              panel_mma_add(a, rows.x, rows.y, sums_[p][tile]);
            }
          }
        }
      }
    }
  }

  // to += the sums, which become 0.
  __device__ void move_to(Sums& to) {
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      GRAFT_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        GRAFT_UNROLL
        for (int i = 0; i < 4; ++i) {
          to[p][tile][i] += sums_[p][tile][i];
          sums_[p][tile][i] = 0.0F;
        }
      }
    }
  }

 private:
  // Loads of x and products of several tiles are interleaved: each waits for the one before it.
  static constexpr int kGroup = kTiles < 4 ? kTiles : 4;

  template <class X>
  __device__ void add_block(const PanelStep<kType> (&panels)[kPanels], int b, int t, const X& x) {
    std::uint32_t a[kPanels][2][4];
    GRAFT_UNROLL
    for (int p = 0; p < kPanels; ++p)
      panels[p].operands(b, t, a[p]);
    GRAFT_UNROLL
    for (int first = 0; first < kTiles; first += kGroup) {
      uint4 rows[kGroup];
      GRAFT_UNROLL
      for (int i = 0; i < kGroup; ++i)
        rows[i] = x(b, first + i);
      GRAFT_UNROLL
      for (int i = 0; i < kGroup * kPanels; ++i)
        panel_mma_add(a[i % kPanels][0], rows[i / kPanels].x, rows[i / kPanels].y,
                      sums_[i % kPanels][first + i / kPanels]);
      GRAFT_UNROLL
      for (int i = 0; i < kGroup * kPanels; ++i)
        panel_mma_add(a[i % kPanels][1], rows[i / kPanels].z, rows[i / kPanels].w,
                      sums_[i % kPanels][first + i / kPanels]);
    }
  }

  static constexpr int kHeld = Steps::kIsSuper && Steps::kNeedsSums ? Steps::kChunkSteps : 1;
  Sums sums_ = {};
  std::uint32_t mins_[kHeld][kPanels][2];
  uint2 x_sums_[kHeld][kTiles];
};

// The order of additions depends on the columns alone, so that a row's bits are the same in every
// kernel and for any number of rows. Sums are nested, each from 0 in ascending order:
//
//     unit      1 or 2 steps, multiplied one after another: a piece
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
