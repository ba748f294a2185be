#include "graft/ops/cuda/experts/streamed_weights.h"

#include <atomic>

#include "graft/base/text/str.h"
#include "graft/kernels/cuda/formats/panels.h"
#include "graft/ops/cuda/device_weight.h"

namespace graft::ops::cuda {
namespace {

// Long copies for the full PCIe rate, and enough experts for the full rate of the kernels.
constexpr std::size_t kGroupBytes = std::size_t{96} << 20U;

DType dtype_of(const ExpertProjection& projection) {
  return projection.packed.empty() ? projection.stored.front().dtype
                                   : projection.packed.front().dtype();
}

bool can_unpack(const ExpertProjection& projection) {
  const DType dtype = dtype_of(projection);
  return projection.packed.empty() ? kernels::cuda::can_decode(dtype)
                                   : kernels::cuda::can_unpack_panels(dtype);
}

kernels::cuda::Half* half_at(TensorView out, std::int64_t element) {
  return out.as<kernels::cuda::Half>() + element;
}

// Calls body(range) for each run of consecutive used experts; a resident is a run of its own.
template <class Body>
void for_each_run(ExpertRange experts,
                  std::span<const std::uint8_t> is_used,
                  const ResidentSlots& residents,
                  const Body& body) {
  const auto is_copied = [&](std::int64_t expert) {
    return is_used[static_cast<std::size_t>(expert)] != 0 && residents.find(expert, 0) == nullptr;
  };
  std::int64_t begin = experts.begin;
  while (begin < experts.end) {
    std::int64_t end = begin;
    while (end < experts.end && is_copied(end))
      ++end;
    if (end > begin) {
      body(ExpertRange{.begin = begin, .end = end});
    } else {
      end = begin + 1;
      if (is_used[static_cast<std::size_t>(begin)] != 0)
        body(ExpertRange{.begin = begin, .end = end});
    }
    begin = end;
  }
}

}  // namespace

std::string StreamedWeights::obstacle(const ExpertStore& store) {
  if (store.empty()) return "the operator for decode does not offer its weights";
  if (store.is_on_disk) return "the weights do not fit into host memory and stay on disk";
  if (store.has_column_order)
    return "they read the columns of x in orders of their own (GPTQ's desc_act)";
  if (!ExpertCopies::is_uniform(store)) return "the experts have several types";
  for (const ExpertProjection& projection : {store.gate_proj, store.up_proj, store.down_proj}) {
    if (!can_unpack(projection))
      return str("the GPU does not read ", name(dtype_of(projection)), " as packed for the CPU");
  }
  return "";
}

std::string StreamedWeights::load(const ExpertStore& store,
                                  Device device,
                                  WeightProvider& weights) {
  static std::atomic<std::uint64_t> next_id = 1;
  id_ = next_id++;
  copies_ = ExpertCopies(store, kGroupBytes);
  add(store.gate_proj, projections_[0], device, weights);
  add(store.up_proj, projections_[1], device, weights);
  add(store.down_proj, projections_[2], device, weights);
  use_gpu(device.index);
  return pins_.pin(copies_.host_memory());
}

void StreamedWeights::unload() noexcept {
  pins_.unpin();
  copies_ = {};
  projections_ = {};
  owners_.clear();
}

void StreamedWeights::add(const ExpertProjection& from,
                          Projection& to,
                          Device device,
                          WeightProvider& weights) {
  to.dtype = dtype_of(from);
  to.is_packed = !from.packed.empty();
  if (to.is_packed) {
    owners_.insert(owners_.end(), from.packed.begin(), from.packed.end());
    to.rows = from.packed.front().rows();
    to.cols = from.packed.front().cols();
    return;
  }
  const Weight& first = from.stored.front();
  to.rows = first.rows();
  to.cols = first.cols();
  if (first.scale == nullptr) return;
  std::vector<float> values;
  for (const Weight& weight : from.stored)
    values.insert(values.end(), weight.scale->values.begin(), weight.scale->values.end());
  to.scale_layout = first.scale->layout;
  to.scales = upload_floats(values, device, weights);
}

std::size_t StreamedWeights::layer_bytes() const {
  return copies_.expert_bytes() * static_cast<std::size_t>(copies_.num_experts());
}

std::int64_t StreamedWeights::group_elements() const {
  std::int64_t elements = 0;
  for (const Projection& projection : projections_)
    elements += projection.rows * projection.cols;
  return elements * copies_.experts_of(0).size();
}

void StreamedWeights::start(std::int64_t group,
                            std::span<const std::uint8_t> is_used,
                            ExpertRing& ring) {
  const std::vector<HostCopy> copies = copies_.copies_of(group, is_used);
  ring.start(key(group), copies);
  for (const HostCopy& copy : copies)
    streamed_bytes_ += copy.bytes;
}

void StreamedWeights::start_ahead(ExpertRing& ring) {
  if (copies_.group_bytes() > ring.slot_bytes()) return;
  const std::vector<std::uint8_t> all(static_cast<std::size_t>(copies_.num_experts()), 1);
  for (std::int64_t group = 0; group < copies_.num_groups() && ring.can_start(); ++group)
    if (!ring.holds(key(group))) start(group, all, ring);
}

kernels::cuda::ExpertGroup StreamedWeights::unpack(std::int64_t group,
                                                   std::span<const std::uint8_t> is_used,
                                                   const std::byte* copied,
                                                   const ResidentSlots& residents,
                                                   TensorView out,
                                                   kernels::cuda::Stream stream) const {
  const ExpertRange experts = copies_.experts_of(group);
  std::array<const void*, 3> matrices = {};
  std::int64_t first_element = 0;
  for (std::size_t p = 0; p < projections_.size(); ++p) {
    const Projection& projection = projections_[p];
    const std::int64_t elements = projection.rows * projection.cols;
    const TensorView place = out.slice(first_element, experts.size() * elements);
    matrices[p] = place.data;
    const std::byte* group_from = copied + copies_.offset_of(p, experts.size());
    for_each_run(experts, is_used, residents, [&](ExpertRange run) {
      const std::int64_t skipped = run.begin - experts.begin;
      const std::byte* from = residents.find(run.begin, p);
      if (from == nullptr)
        from = group_from + static_cast<std::size_t>(skipped) * copies_.matrix_bytes(p);
      unpack_run(projection, run, from, copies_.matrix_bytes(p),
                 place.slice(skipped * elements, run.size() * elements), stream);
    });
    first_element += experts.size() * elements;
  }
  return {.dtype = out.dtype,
          .first_expert = experts.begin,
          .num_experts = experts.size(),
          .hidden = projections_[0].cols,
          .intermediate = projections_[0].rows,
          .gate = matrices[0],
          .up = matrices[1],
          .down = matrices[2]};
}

void StreamedWeights::unpack_run(const Projection& projection,
                                 ExpertRange experts,
                                 const std::byte* from,
                                 std::size_t matrix_bytes,
                                 TensorView out,
                                 kernels::cuda::Stream stream) const {
  const bool is_f16 = out.dtype == DType::F16;
  if (projection.is_packed) {
    const kernels::cuda::PanelStack stack = {.dtype = projection.dtype,
                                             .panels = from,
                                             .num_matrices = experts.size(),
                                             .rows = projection.rows,
                                             .cols = projection.cols};
    if (is_f16) return kernels::cuda::unpack_panels(stack, half_at(out, 0), stream);
    return kernels::cuda::unpack_panels(stack, out.f32(), stream);
  }
  const std::int64_t elements = projection.rows * projection.cols;
  for (std::int64_t i = 0; i < experts.size(); ++i, from += matrix_bytes) {
    kernels::cuda::Matrix matrix = {
        .dtype = projection.dtype, .data = from, .rows = projection.rows, .cols = projection.cols};
    if (projection.scales.size() != 0) {
      const quant::ScaleLayout& layout = projection.scale_layout;
      matrix.scales = {.values = reinterpret_cast<const float*>(projection.scales.data()) +
                                 (experts.begin + i) * layout.num_scales(),
                       .matrix_rows = layout.matrix_rows,
                       .tile_rows = layout.tile_rows,
                       .tile_cols = layout.tile_cols,
                       .scale_cols = layout.scale_cols};
    }
    if (is_f16) {
      kernels::cuda::decode_rows_f16(matrix, 0, projection.rows, half_at(out, i * elements),
                                     stream);
    } else {
      kernels::cuda::decode_rows(matrix, 0, projection.rows, out.f32() + i * elements, stream);
    }
  }
}

}  // namespace graft::ops::cuda
