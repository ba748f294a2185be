// What the kernels with wgmma share (sm_90a): each of 8 warps makes the operands of two panels in
// registers, which the four warps of a warpgroup multiply with rows of x in shared memory. Warps of
// a third warpgroup copy the panels and x.

#pragma once

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/linear/panels/core_rows.cuh"
#include "graft/kernels/cuda/linear/panels/panel_step.cuh"

namespace graft::kernels::cuda {

// Whether this GPU and build have the kernels for weights of this type: those with super-blocks.
bool can_use_wgmma(DType dtype);

inline constexpr int kWgmmaGroups = 2;                // warpgroups that multiply
inline constexpr int kWgmmaWarpPanels = 2;            // of a warp
inline constexpr int kWgmmaWarps = 4 * kWgmmaGroups;  // that multiply
inline constexpr int kWgmmaSumThreads = kWgmmaWarps * kWarpSize;
inline constexpr int kWgmmaThreads = kWgmmaSumThreads + kWarpgroupThreads;
// Of 65,536, a multiprocessor's: (2 x 232 + 40) x 128.
inline constexpr int kWgmmaSumRegisters = 232;
inline constexpr int kWgmmaCopyRegisters = 40;
inline constexpr int kWgmmaPanels = kWgmmaWarps * kWgmmaWarpPanels;
inline constexpr int kWgmmaRows = 64;  // or half of them

template <DType kDType, int kRows_>
struct WgmmaShape {
  using Steps = PanelSteps<kDType>;
  static constexpr DType kType = kDType;
  static constexpr int kRows = kRows_;
  static constexpr int kTiles = kRows / kCoreRows;
  static constexpr int kSums = 4 * kTiles;  // of a lane and panel
  static constexpr int kLaneSums = kWgmmaWarpPanels * kSums;
  static constexpr int kChunks = 2;  // in shared memory
  // The mins are multiplied at the end of a piece, with the x of both of its steps.
  static constexpr int kSteps = Steps::kNeedsSums ? 4 : 3;
  static constexpr int kChunkBytes = kWgmmaPanels * Steps::kChunkBytes;
  static constexpr int kStepBytes = kTiles * kCoreGroupBytes;
  static constexpr int kTotals = kWgmmaSumThreads * kLaneSums * 4;
  static constexpr std::size_t kSharedBytes = kChunks * kChunkBytes + kSteps * kStepBytes + kTotals;
};

// Barriers of a ring: full when copies have arrived, empty when all warps have read them.
template <int kDepth>
struct WgmmaRing {
  std::uint64_t full[kDepth];
  std::uint64_t empty[kDepth];

  // num_copying: threads that arrive when a buffer is full.
  __device__ void init(int num_copying) {
    for (int i = 0; i < kDepth; ++i) {
      init_barrier(shared_address(&full[i]), num_copying);
      init_barrier(shared_address(&empty[i]), kWgmmaWarps);
    }
  }
  __device__ void wait(int k) { wait_for_phase(shared_address(&full[k % kDepth]), k / kDepth); }
  __device__ void release(int k) {
    if (threadIdx.x % kWarpSize == 0) arrive(shared_address(&empty[k % kDepth]));
  }
  __device__ void wait_empty(int k) {
    if (k >= kDepth) wait_for_phase(shared_address(&empty[k % kDepth]), k / kDepth - 1);
  }
  __device__ std::uint32_t full_barrier(int k) { return shared_address(&full[k % kDepth]); }
};

template <class S>
struct WgmmaRings {
  WgmmaRing<S::kChunks> chunks;
  WgmmaRing<S::kSteps> steps;
};

// All lanes of a warp copy chunks [first, end) of the panels, each those of its own panel, of which
// the first chunk is at `panel`.
template <class S>
__device__ void copy_panels(const std::uint8_t* panel,
                            WgmmaRing<S::kChunks>& ring,
                            unsigned char* memory,
                            int first,
                            int end) {
  using Steps = typename S::Steps;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::uint32_t to = shared_address(memory + lane * Steps::kChunkBytes);
  for (int k = first; k < end; ++k) {
    ring.wait_empty(k);
    if (lane == 0) arrive_expecting(ring.full_barrier(k), S::kChunkBytes);
    __syncwarp();
    if (lane < kWgmmaPanels)
      bulk_copy(to + k % S::kChunks * S::kChunkBytes, panel + std::int64_t{k} * Steps::kChunkBytes,
                Steps::kChunkBytes, ring.full_barrier(k));
  }
}

// The sums of the two panels of a warp.
template <class S>
class WgmmaSums {
 public:
  using Steps = typename S::Steps;

  // The products of a piece of one or two steps, then to += them. `first` is the turn of its first
  // step.
  __device__ void add_piece(WgmmaRings<S>& rings,
                            unsigned char* memory,
                            int first,
                            int num_steps,
                            int warp,
                            float (&to)[kWgmmaWarpPanels][S::kSums]) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int chunk = first / Steps::kChunkSteps;
    if (first % Steps::kChunkSteps == 0) rings.chunks.wait(chunk);
    const unsigned char* panels =
        memory + chunk % S::kChunks * S::kChunkBytes + warp * Steps::kChunkBytes;
    const std::uint32_t x = shared_address(memory + S::kChunks * S::kChunkBytes);
    std::uint32_t mins[Steps::kChunkSteps][kWgmmaWarpPanels][2];
    float d[kWgmmaWarpPanels][2];
    GRAFT_UNROLL
    for (int s = 0; s < Steps::kChunkSteps; ++s) {
      if (s >= num_steps) continue;
      const int step = first + s;
      const int half = step % Steps::kChunkSteps;
      const auto at = [&](int p) -> PanelStepAt {
        const unsigned char* chunk_at = panels + p * kWgmmaWarps * Steps::kChunkBytes;
        return {.header = chunk_at,
                .codes = chunk_at + Steps::kHeaderBytes + half * Steps::kCodeBytes,
                .first_block = half * kPanelStepBlocks,
                .num_blocks = kPanelStepBlocks};
      };
      const PanelStep<S::kType> steps[kWgmmaWarpPanels] = {
          PanelStep<S::kType>(at(0), lane / 4, lane % 4),
          PanelStep<S::kType>(at(1), lane / 4, lane % 4)};
      rings.steps.wait(step);
      fence_shared_for_wgmma();
      const std::uint32_t rows = x + step % S::kSteps * S::kStepBytes;
      GRAFT_UNROLL
      for (int b = 0; b < kPanelStepBlocks; ++b) {
        GRAFT_UNROLL
        for (int p = 0; p < kWgmmaWarpPanels; ++p) {
          std::uint32_t a[2][4];
          steps[p].operands(b, lane % 4, a);
          wgmma_begin();
          wgmma(a[0], operand(rows, 2 * b), s + b > 0, sums_[p]);
          wgmma(a[1], operand(rows, 2 * b + 1), true, sums_[p]);
          wgmma_commit();
          // The operands of the block before are free.
          wgmma_wait<1>();
        }
      }
      GRAFT_UNROLL
      for (int p = 0; p < kWgmmaWarpPanels; ++p) {
        steps[p].scales(0, d[p]);
        if constexpr (Steps::kNeedsSums) steps[p].mins_operand(mins[s][p]);
      }
    }
    wgmma_wait<0>();
    GRAFT_UNROLL
    for (int i = 0; i < S::kLaneSums; ++i)
      sums_[i / S::kSums][i % S::kSums] =
          __fmul_rn(sums_[i / S::kSums][i % S::kSums], d[i / S::kSums][i % 4 / 2]);  // not an fma
    if constexpr (Steps::kNeedsSums) {
      wgmma_begin();
      GRAFT_UNROLL
      for (int s = 0; s < Steps::kChunkSteps; ++s) {
        if (s >= num_steps) continue;
        const std::uint32_t rows = x + (first + s) % S::kSteps * S::kStepBytes;
        GRAFT_UNROLL
        for (int p = 0; p < kWgmmaWarpPanels; ++p) {
          const std::uint32_t a[4] = {mins[s][p][0], mins[s][p][1], mins[s][p][0], mins[s][p][1]};
          wgmma(a, operand(rows, kCoreValueBytes / (2 * kCoreBytes)), true, sums_[p]);
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
    }
    GRAFT_UNROLL
    for (int s = 0; s < Steps::kChunkSteps; ++s)
      if (s < num_steps) rings.steps.release(first + s);
    if ((first + num_steps) % Steps::kChunkSteps == 0) rings.chunks.release(chunk);
    GRAFT_UNROLL
    for (int i = 0; i < S::kLaneSums; ++i)
      to[i / S::kSums][i % S::kSums] += sums_[i / S::kSums][i % S::kSums];
  }

 private:
  // Product k of 16 values of a step.
  static __device__ std::uint64_t operand(std::uint32_t rows, int k) {
    return wgmma_operand(rows + k * 2 * kCoreBytes, kCoreBytes, kCoreGroupBytes);
  }

  float sums_[kWgmmaWarpPanels][S::kSums];
};

}  // namespace graft::kernels::cuda
