// Rows of x in shared memory, step by step: kDepth buffers, each with the values of up to kRows
// rows and their sums. The rows follow each other in PanelRows, or a list of at most 32 names them;
// then the blocks of a row are in the order of its place in PanelRows, not in the tile.

#pragma once

#include "graft/kernels/cuda/bulk_copy.cuh"
#include "graft/kernels/cuda/linear/panels/panel_rows.cuh"

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

  // barriers: kBarriers words. Rows [first_row, first_row + num_rows), or with a list (in shared
  // memory) those that it names; steps [first, end).
  struct Part {
    const int* list = nullptr;
    int first_row = 0;
    int num_rows = 0;
    int first_step = 0;
    int end_step = 0;
  };
  __device__ PanelXRing(const PanelRows& x,
                        unsigned char* buffers,
                        std::uint64_t* barriers,
                        const Part& part)
      : x_(x), buffers_(buffers), barriers_(shared_address(barriers)), part_(part) {}

  // One thread; then the thread block synchronizes.
  __device__ void init() const {
    for (int i = 0; i < kDepth; ++i) {
      init_barrier(full(i), 1);
      init_barrier(empty(i), kReaders);
    }
    publish_barriers();
  }
  // All lanes of the warp that copies.
  __device__ void begin() const {
    for (int i = 0; i < kDepth; ++i)
      copy(part_.first_step + i);
  }

  __device__ const unsigned char* wait(int step) const {
    const int k = step - part_.first_step;
    wait_for_phase(full(k % kDepth), k / kDepth);
    return buffers_ + k % kDepth * kStepBytes;
  }

  // All lanes of a warp when they have read the step. The buffer of the step before is free when
  // all warps have left it: one step later, that wait is short.
  __device__ void release(int step, bool copies) const {
    __syncwarp();
    const int k = step - part_.first_step;
    if (threadIdx.x % kWarpSize == 0) arrive(empty(k % kDepth));
    if (copies && k > 0) {
      wait_for_phase(empty((k - 1) % kDepth), (k - 1) / kDepth);
      copy(step - 1 + kDepth);
    }
    __syncwarp();
  }

  __device__ int first_row() const { return part_.first_row; }
  __device__ int num_rows() const { return part_.num_rows; }

 private:
  __device__ std::uint32_t full(int i) const { return barriers_ + 8 * i; }
  __device__ std::uint32_t empty(int i) const { return barriers_ + 8 * (kDepth + i); }

  __device__ void copy(int step) const {
    if (step >= part_.end_step) return;
    const int i = (step - part_.first_step) % kDepth;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const std::uint32_t values = shared_address(buffers_ + i * kStepBytes);
    const std::uint32_t sums = values + kRows * kPanelRowBytes;
    if (lane == 0) arrive_expecting(full(i), part_.num_rows * (kPanelRowBytes + kPanelSumBytes));
    __syncwarp();
    if (part_.list != nullptr) {
      if (lane >= part_.num_rows) return;
      const int row = part_.list[lane];
      bulk_copy(values + lane * kPanelRowBytes, panel_values(x_, step, row), kPanelRowBytes,
                full(i));
      bulk_copy(sums + lane * kPanelSumBytes, panel_sums(x_, step, row), kPanelSumBytes, full(i));
    } else if (lane == 0) {
      bulk_copy(values, panel_values(x_, step, part_.first_row), part_.num_rows * kPanelRowBytes,
                full(i));
      bulk_copy(sums, panel_sums(x_, step, part_.first_row), part_.num_rows * kPanelSumBytes,
                full(i));
    }
  }

  PanelRows x_;
  unsigned char* buffers_;
  std::uint32_t barriers_;
  Part part_;
};

}  // namespace graft::kernels::cuda
