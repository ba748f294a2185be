// The multiplication of one panel with up to 8 rows per tile over one step of 128 columns, and how
// panels are cut into buffers and slices.

#pragma once

#include "graft/kernels/cuda/attention/mma.cuh"
#include "graft/kernels/cuda/formats/panel_halves.cuh"
#include "graft/kernels/cuda/linear/panel_rows.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelTileRows = 8;  // rows of x: columns of an mma
inline constexpr int kPanelQuads = 4;     // of 16 bytes of x per lane and step

// What is copied to shared memory at a time: whole chunks, one or two steps.
template <DType kType>
struct PanelBuffer {
  using Layout = PanelLayout<kType>;
  static constexpr int kCols =
      Layout::kChunkCols > kPanelStepCols ? Layout::kChunkCols : kPanelStepCols;
  static constexpr int kChunks = kCols / Layout::kChunkCols;
  static constexpr int kBytes = kChunks * Layout::kChunkBytes;
  static constexpr int kSteps = kCols / kPanelStepCols;
  static constexpr int kBlocks = kCols / kPanelBlockCols;

  // Of buffer `index` of a panel with num_blocks blocks.
  static __device__ std::uint32_t bytes(int index, int num_blocks) {
    constexpr int kChunkBlocks = Layout::kChunkCols / kPanelBlockCols;
    const int chunks = (num_blocks - index * kBlocks) / kChunkBlocks;
    return static_cast<std::uint32_t>(min(chunks, kChunks) * Layout::kChunkBytes);
  }
};

// Buffers [first, end) of a panel.
struct PanelSlice {
  int first;
  int end;
};

__device__ inline PanelSlice panel_slice(int num_buffers, int slice, int num_slices) {
  return {.first = slice * num_buffers / num_slices, .end = (slice + 1) * num_buffers / num_slices};
}

// The operands of one panel in one step. Lane t of a quad has block t, so that it needs one set of
// scales per row and step.
template <DType kType>
class PanelOperand {
 public:
  // buffer: in shared memory; step: in the buffer; num_blocks: from the step on.
  __device__ PanelOperand(const unsigned char* buffer, int step, int num_blocks)
      : low_(chunk(buffer, step), block(step), row(), lane_block() < num_blocks),
        high_(chunk(buffer, step), block(step), row() + 8, lane_block() < num_blocks) {}

  // The A operands for quad q: columns 4 i .. 4 i + 3 of the lane's block, and those 16 further.
  __device__ void load(int q, std::uint32_t (&a)[2][4]) const {
    HalfQuad low[2];
    HalfQuad high[2];
    // The lanes of a quad begin at different lines: those of one would be in the same banks.
    const int i = (q + lane_block()) % kPanelQuads;
    low_.quads(i, low);
    high_.quads(i, high);
    GRAFT_UNROLL
    for (int upper = 0; upper < 2; ++upper) {
      a[upper][0] = low[upper].even;
      a[upper][1] = high[upper].even;
      a[upper][2] = low[upper].odd;
      a[upper][3] = high[upper].odd;
    }
  }

 private:
  using Layout = PanelLayout<kType>;
  static constexpr int kChunkBlocks = Layout::kChunkCols / kPanelBlockCols;
  static __device__ int row() { return static_cast<int>(threadIdx.x) % kWarpSize / 4; }
  static __device__ int lane_block() { return static_cast<int>(threadIdx.x) % 4; }
  static __device__ int block(int step) {
    return (step * kPanelStepBlocks + lane_block()) % kChunkBlocks;
  }
  static __device__ const unsigned char* chunk(const unsigned char* buffer, int step) {
    return buffer + (step * kPanelStepBlocks + lane_block()) / kChunkBlocks * Layout::kChunkBytes;
  }

  PanelHalves<kType> low_;
  PanelHalves<kType> high_;
};

// sums += the operands of a quad times 8 rows of x, of which x holds 16 bytes.
__device__ inline void multiply_quad(const std::uint32_t (&a)[2][4], uint4 x, float (&sums)[4]) {
  MmaF16::mma(a[0], x.x, x.y, sums);
  MmaF16::mma(a[1], x.z, x.w, sums);
}

}  // namespace graft::kernels::cuda
