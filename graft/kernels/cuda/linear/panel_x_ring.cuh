// Rows of x in shared memory, step by step: kDepth buffers, each with the values of kRows rows and
// their sums as they lie in PanelRows.

#pragma once

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/linear/panel_rows.cuh"

namespace graft::kernels::cuda {

inline constexpr int kPanelRowBytes = kPanelRowHalves * static_cast<int>(sizeof(Half));
inline constexpr int kPanelSumBytes = kPanelRowSums * static_cast<int>(sizeof(Half));

// kReaders warps read; a lane of one of them copies.
template <int kRows, int kDepth, int kReaders>
class PanelXRing {
 public:
  static constexpr int kStepBytes = kRows * (kPanelRowBytes + kPanelSumBytes);
  static constexpr int kBytes = kDepth * kStepBytes;
  static constexpr int kBarriers = 2 * kDepth;

  // barriers: kBarriers words. Rows from blockIdx.y * kRows on, steps [first, end).
  __device__ PanelXRing(
      const PanelRows& x, unsigned char* buffers, std::uint64_t* barriers, int first, int end)
      : x_(x),
        buffers_(buffers),
        barriers_(shared_address(barriers)),
        first_step_(first),
        end_step_(end),
        first_row_(static_cast<int>(blockIdx.y) * kRows),
        num_rows_(min(static_cast<int>(x.rows) - first_row_, kRows)) {}

  // One thread; then the thread block synchronizes.
  __device__ void init() const {
    for (int i = 0; i < kDepth; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), kReaders);
    }
    publish_barriers();
  }
  // One thread.
  __device__ void begin() const {
    for (int i = 0; i < kDepth; ++i)
      copy(first_step_ + i);
  }

  __device__ const unsigned char* wait(int step) const {
    const int k = step - first_step_;
    wait_for_phase(full(k % kDepth), k / kDepth);
    return buffers_ + k % kDepth * kStepBytes;
  }

  // All lanes of a warp when they have read the step. The buffer of the step before is free when
  // all warps have left it: one step later, that wait is short.
  __device__ void release(int step, bool copies) const {
    __syncwarp();
    const int k = step - first_step_;
    if (threadIdx.x % kWarpSize == 0) {
      arrive(empty(k % kDepth));
      if (copies && k > 0) {
        wait_for_phase(empty((k - 1) % kDepth), (k - 1) / kDepth);
        copy(step - 1 + kDepth);
      }
    }
    __syncwarp();
  }

  __device__ int first_row() const { return first_row_; }
  __device__ int num_rows() const { return num_rows_; }

 private:
  __device__ std::uint32_t full(int i) const { return barriers_ + 8 * i; }
  __device__ std::uint32_t empty(int i) const { return barriers_ + 8 * (kDepth + i); }

  __device__ void copy(int step) const {
    if (step >= end_step_) return;
    const int i = (step - first_step_) % kDepth;
    const std::uint32_t to = shared_address(buffers_ + i * kStepBytes);
    arrive_expecting(full(i), num_rows_ * (kPanelRowBytes + kPanelSumBytes));
    bulk_copy(to, panel_values(x_, step, first_row_), num_rows_ * kPanelRowBytes, full(i));
    bulk_copy(to + kRows * kPanelRowBytes, panel_sums(x_, step, first_row_),
              num_rows_ * kPanelSumBytes, full(i));
  }

  PanelRows x_;
  unsigned char* buffers_;
  std::uint32_t barriers_;
  int first_step_;
  int end_step_;
  int first_row_;
  int num_rows_;
};

}  // namespace graft::kernels::cuda
