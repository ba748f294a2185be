#include "graft/ops/cuda/experts/resident_slots.h"

#include "graft/base/text/str.h"
#include "graft/kernels/cuda/moe/panel_experts.h"
#include "graft/kernels/cuda/moe/panel_experts_mma.h"
#include "graft/ops/cuda/runtime/pinned_ranges.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {

std::string ResidentSlots::obstacle(const ExpertStore& store) {
  if (!store.gate_proj.packed.empty()) return "";
  if (store.gate_proj.stored.front().scale != nullptr)
    return "their scales are separate tensors, and this CPU has no packed form of them";
  return "";
}

void ResidentSlots::load(const ExpertStore& store,
                         const ExpertsParams& params,
                         Precision precision,
                         std::int64_t num_slots,
                         std::span<const std::int64_t> resident,
                         Device device) {
  params_ = params;
  precision_ = precision;
  num_slots_ = num_slots;
  if (num_slots == 0) return;
  is_packed_ = !store.gate_proj.packed.empty();
  const std::array<const ExpertProjection*, 3> from = {&store.gate_proj, &store.up_proj,
                                                       &store.down_proj};
  for (std::size_t p = 0; p < from.size(); ++p) {
    projections_[p] = is_packed_ ? Projection{.dtype = from[p]->packed.front().dtype(),
                                              .cols = from[p]->packed.front().cols()}
                                 : Projection{.dtype = from[p]->stored.front().dtype,
                                              .cols = from[p]->stored.front().cols()};
  }
  copies_ = ExpertCopies(store, 1);
  use_gpu(device.index);
  slots_ = Buffer(copies_.group_bytes() * static_cast<std::size_t>(num_slots), device);
  slot_of_.assign(static_cast<std::size_t>(params.num_experts), -1);
  for (std::size_t slot = 0; slot < resident.size(); ++slot) {
    slot_of_[static_cast<std::size_t>(resident[slot])] = static_cast<std::int32_t>(slot);
    copy(static_cast<std::int64_t>(slot), resident[slot], nullptr);
  }
  const std::size_t table_bytes = slot_of_.size() * sizeof(std::int32_t);
  table_ = Buffer(table_bytes, device);
  copy_in_order(device.index, table_.data(), slot_of_.data(), table_bytes, cudaMemcpyHostToDevice);
}

void ResidentSlots::unload() {
  num_slots_ = 0;
  slots_ = {};
  table_ = {};
  copies_ = {};
}

void ResidentSlots::copy(std::int64_t slot, std::int64_t expert, cudaStream_t stream) {
  const std::vector<std::uint8_t> all(slot_of_.size(), 1);
  for (const HostCopy& piece : copies_.copies_of(expert, all)) {
    check_cuda(copy_to_gpu(slot_at(slot) + piece.to, piece.from, piece.bytes, stream),
               "copying experts to the GPU");
  }
}

void ResidentSlots::start_fill(std::int64_t slot, std::int64_t expert, CudaContext& gpu) {
  const CudaStream& copies = gpu.expert_ring().copy_stream();
  may_fill_.record(gpu.compute_stream());
  may_fill_.hold(copies);
  copy(slot, expert, copies.get());
  filled_.record(copies);
}

void ResidentSlots::set_slot(std::int64_t expert, std::int64_t slot, CudaContext& gpu) {
  slot_of_[static_cast<std::size_t>(expert)] = static_cast<std::int32_t>(slot);
  kernels::cuda::set_slot(reinterpret_cast<std::int32_t*>(table_.data()), expert, slot,
                          gpu.stream());
}

const std::byte* ResidentSlots::find(std::int64_t expert, std::size_t projection) const {
  if (num_slots_ == 0) return nullptr;
  const std::int32_t slot = slot_of_[static_cast<std::size_t>(expert)];
  if (slot < 0) return nullptr;
  return matrices(projection) + static_cast<std::size_t>(slot) * copies_.group_bytes();
}

void ResidentSlots::forward(TensorView x,
                            Routing routing,
                            const kernels::cuda::ExpertEpilogue& epilogue,
                            TensorView y,
                            CudaContext& gpu,
                            Pass& pass) const {
  const Workspace::Scope scope(pass.workspace);
  const std::int64_t num_pairs = routing.expert_ids.num_elems();
  const TensorView ids = pass.workspace.allocate(DType::I32, {num_pairs});
  kernels::cuda::map_to_slots(routing.expert_ids.as<std::int32_t>(),
                              reinterpret_cast<const std::int32_t*>(table_.data()),
                              ids.as<std::int32_t>(), num_pairs, gpu.stream());
  const kernels::cuda::RoutedRows routed = {.rows = x.rows(),
                                            .x = rows_of(x),
                                            .expert_ids = ids.as<std::int32_t>(),
                                            .bias_ids = routing.expert_ids.as<std::int32_t>(),
                                            .weights = routing.weights.f32(),
                                            .y = rows_of(y)};
  const auto scratch = [&](std::size_t bytes) {
    return pass.workspace.allocate(DType::U8, {static_cast<std::int64_t>(bytes)}).data;
  };
  const std::size_t slot_bytes = copies_.group_bytes();
  if (is_packed()) {
    const auto panels = [&](std::size_t p) {
      return kernels::cuda::PanelMatrices{
          .dtype = projections_[p].dtype, .panels = matrices(p), .matrix_bytes = slot_bytes};
    };
    const kernels::cuda::PanelExpertsJob job = {.num_matrices = num_slots_,
                                                .top_k = params_.top_k,
                                                .hidden = params_.hidden_size,
                                                .intermediate = params_.intermediate_size,
                                                .gate = panels(0),
                                                .up = panels(1),
                                                .down = panels(2),
                                                .epilogue = epilogue};
    if (precision_ == Precision::Fast && kernels::cuda::has_panel_experts_mma(job)) {
      const std::size_t bytes = kernels::cuda::panel_experts_mma_bytes(job, x.rows());
      return kernels::cuda::panel_experts_mma(job, routed, nullptr, scratch(bytes), gpu.stream());
    }
    const std::size_t bytes = kernels::cuda::panel_experts_bytes(job, x.rows());
    return kernels::cuda::panel_experts(job, routed, scratch(bytes), gpu.stream());
  }
  const auto stack = [&](std::size_t p) {
    return kernels::cuda::ExpertStack{.matrix = {.dtype = projections_[p].dtype,
                                                 .data = matrices(p),
                                                 .cols = projections_[p].cols},
                                      .matrix_bytes = slot_bytes};
  };
  const kernels::cuda::ExpertsJob job = {.num_experts = num_slots_,
                                         .top_k = params_.top_k,
                                         .hidden = params_.hidden_size,
                                         .intermediate = params_.intermediate_size,
                                         .gate = stack(0),
                                         .up = stack(1),
                                         .down = stack(2),
                                         .use_int8 = false,
                                         .arithmetic = kernels::cuda::Arithmetic::F32,
                                         .epilogue = epilogue};
  kernels::cuda::experts(job, routed, scratch(kernels::cuda::experts_bytes(job, x.rows())),
                         gpu.stream());
}

}  // namespace graft::ops::cuda
