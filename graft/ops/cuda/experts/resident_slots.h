// Copies of some experts of a layer in GPU memory. A slot holds the three matrices of an expert in
// the form they have in host memory (panels, or rows of the checkpoint):
//
//     slot 0: gate_proj | up_proj | down_proj, slot 1: …
//
// A table in GPU memory maps experts to slots. Kernels read it, so captured graphs stay valid when
// a slot gets another expert.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/kernels/cuda/moe/expert_epilogue.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/experts/expert_copies.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"
#include "graft/tensor/buffer.h"

namespace graft::ops::cuda {

class ResidentSlots {
 public:
  // Why these weights cannot be kept in slots; empty: they can.
  static std::string obstacle(const ExpertStore& store);

  // Expert resident[i] is copied to slot i before this returns.
  void load(const ExpertStore& store,
            const ExpertsParams& params,
            Precision precision,
            std::int64_t num_slots,
            std::span<const std::int64_t> resident,
            Device device);
  // Only when the GPU reads none of them.
  void unload();
  bool empty() const { return num_slots_ == 0; }

  // As in DeviceExperts.
  void start_fill(std::int64_t slot, std::int64_t expert, CudaContext& gpu);
  bool is_filled() const { return filled_.is_done(); }
  void set_slot(std::int64_t expert, std::int64_t slot, CudaContext& gpu);
  void forward(TensorView x,
               Routing routing,
               const kernels::cuda::ExpertEpilogue& epilogue,
               TensorView y,
               CudaContext& gpu,
               Pass& pass) const;

  // A matrix (projection 0: gate, 1: up, 2: down) of an expert; null: it has no slot.
  const std::byte* find(std::int64_t expert, std::size_t projection) const;

 private:
  struct Projection {
    DType dtype = DType::F32;
    std::int64_t cols = 0;
  };

  bool is_packed() const { return is_packed_; }
  const std::byte* matrices(std::size_t projection) const {
    return slots_.data() + copies_.offset_of(projection, 1);
  }
  std::byte* slot_at(std::int64_t slot) {
    return slots_.data() + static_cast<std::size_t>(slot) * copies_.group_bytes();
  }
  void copy(std::int64_t slot, std::int64_t expert, cudaStream_t stream);

  ExpertsParams params_;
  Precision precision_ = Precision::F32;
  std::int64_t num_slots_ = 0;
  bool is_packed_ = false;
  std::array<Projection, 3> projections_;
  ExpertCopies copies_;  // groups of one expert
  Buffer slots_;
  Buffer table_;                       // [num_experts] i32, in GPU memory
  std::vector<std::int32_t> slot_of_;  // the same on the host
  CudaEvent may_fill_;                 // after the last pass that reads the slot
  CudaEvent filled_;
};

}  // namespace graft::ops::cuda
