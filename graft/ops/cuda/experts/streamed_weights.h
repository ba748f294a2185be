// The experts of a layer in host memory as a GPU reads them: page-locked, copied through the ring
// in groups, and unpacked to F16 or f32 rows.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/kernels/cuda/moe/expert_group.h"
#include "graft/ops/cuda/experts/expert_ring.h"
#include "graft/ops/cuda/experts/resident_slots.h"
#include "graft/ops/cuda/runtime/pinned_ranges.h"
#include "graft/ops/experts/expert_copies.h"
#include "graft/ops/params.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cuda {

class StreamedWeights {
 public:
  // Why these weights cannot be streamed; empty: they can.
  static std::string obstacle(const ExpertStore& store);

  // Locks the memory. Returns a warning when it cannot be locked, else an empty string.
  std::string load(const ExpertStore& store, Device device, WeightProvider& weights);
  // Only when the GPU reads none of them.
  void unload() noexcept;
  bool empty() const { return copies_.num_experts() == 0; }

  const ExpertCopies& copies() const { return copies_; }
  ExpertRing::Key key(std::int64_t group) const { return {.layer = id_, .group = group}; }
  std::size_t layer_bytes() const;
  // Elements of a group's matrices after unpacking.
  std::int64_t group_elements() const;

  void start(std::int64_t group, std::span<const std::uint8_t> is_used, ExpertRing& ring);
  // Starts the first groups with all their experts, as many as the ring has free slots.
  void start_ahead(ExpertRing& ring);
  // Unpacks the used experts of a group to `out`, and returns them: residents from their slots, the
  // others from the copy of the group at `copied`.
  kernels::cuda::ExpertGroup unpack(std::int64_t group,
                                    std::span<const std::uint8_t> is_used,
                                    const std::byte* copied,
                                    const ResidentSlots& residents,
                                    TensorView out,
                                    kernels::cuda::Stream stream) const;
  std::uint64_t streamed_bytes() const { return streamed_bytes_; }

 private:
  // One projection: [experts] matrices of rows x cols.
  struct Projection {
    DType dtype = DType::F32;
    bool is_packed = false;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    quant::ScaleLayout scale_layout = {};
    Buffer scales = {};  // of stored FP8 weights, in GPU memory
  };

  void add(const ExpertProjection& from, Projection& to, Device device, WeightProvider& weights);
  void unpack_run(const Projection& projection,
                  ExpertRange experts,
                  const std::byte* from,
                  std::size_t matrix_bytes,
                  TensorView out,
                  kernels::cuda::Stream stream) const;

  std::uint64_t id_ = 0;
  std::vector<packing::PackedMatrix> owners_;  // of the memory
  ExpertCopies copies_;
  std::array<Projection, 3> projections_;  // gate, up, down
  PinnedRanges pins_;
  std::uint64_t streamed_bytes_ = 0;
};

}  // namespace graft::ops::cuda
