#include "graft/ops/cuda/experts/device_experts.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/ops/cuda/experts/device_epilogue.h"
#include "graft/ops/cuda/experts/expert_pairs.h"
#include "graft/ops/cuda/experts/resident_slots.h"
#include "graft/ops/cuda/experts/streamed_weights.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/experts/hybrid_experts.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// From this share of experts that cross on, the experts of the next layer, and of the first layer
// in the next pass, are copied before their router ran.
constexpr double kCopyAheadShare = 0.9;

class DeviceExpertsCuda final : public DeviceExperts {
 public:
  explicit DeviceExpertsCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)),
        dtype_(precision_ == Precision::Fast ? DType::F16 : DType::F32) {}

  Support load(const ExpertStore& store,
               std::int64_t num_slots,
               std::span<const std::int64_t> resident,
               WeightProvider& weights) override {
    std::string problem = StreamedWeights::obstacle(store);
    if (problem.empty() && num_slots > 0) problem = ResidentSlots::obstacle(store);
    if (!problem.empty()) return {.problem = problem};
    const std::string unlocked = weights_.load(store, device_, weights);
    if (!unlocked.empty()) {
      weights.warn(str("the system does not lock the memory of the experts (", unlocked,
                       "): prefill copies them to the GPU slowly"));
    }
    epilogue_.load(weights, module_, params_, device_);
    slots_.load(store, params_, precision_, num_slots, resident, device_);
    // Operators are loaded in the order of the layers.
    std::shared_ptr<void>& kept =
        weights.kept_while_loading(str("streamed experts on ", to_string(device_)));
    is_first_ = kept == nullptr;
    if (!is_first_) (*std::static_pointer_cast<DeviceExpertsCuda*>(kept))->next_ = this;
    kept = std::make_shared<DeviceExpertsCuda*>(this);
    return {.can_fill_later = unlocked.empty()};
  }

  void unload() override {
    // Experts may be on their way in advance.
    use_gpu(device_.index);
    cudaDeviceSynchronize();
    weights_.unload();
    slots_.unload();
    epilogue_.unload();
    next_ = nullptr;
  }

  void start_fill(std::int64_t slot, std::int64_t expert, Pass& pass) override {
    use_gpu(device_.index);
    slots_.start_fill(slot, expert, cuda_context(device_, pass));
  }
  bool is_filled() override { return slots_.is_filled(); }
  void set_slot(std::int64_t expert, std::int64_t slot, Pass& pass) override {
    use_gpu(device_.index);
    slots_.set_slot(expert, slot, cuda_context(device_, pass));
  }

  void forward_resident(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    slots_.forward(x.f32, routing, epilogue_.get(), y, gpu, pass);
  }

  void before_streamed_pass(Pass& pass) override {
    if (!is_first_ || !copies_most_) return;
    use_gpu(device_.index);
    weights_.start_ahead(cuda_context(device_, pass).expert_ring());
  }

  // Copies group after group, as far ahead as the ring has slots, and computes each when it has
  // arrived.
  void forward_streamed(const Activation& x,
                        Routing routing,
                        TensorView y,
                        Pass& pass,
                        const Select& select) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    ExpertRing& ring = gpu.expert_ring();
    ring.reserve(weights_.copies().group_bytes(), weights_.layer_bytes());
    const TensorView unpacked = pass.workspace.allocate(dtype_, {weights_.group_elements(), 1});
    ExpertPairs pairs({.x = x.f32, .routing = routing, .y = y}, params_, epilogue_.get(), dtype_,
                      gpu, pass);
    const std::vector<std::int64_t> rows = pairs.rows_by_expert();
    const ExpertMask is_selected = select(rows);
    pairs.restrict_to(is_selected, pass);
    ExpertMask is_used(rows.size(), 0);
    ExpertMask is_copied(rows.size(), 0);
    for (std::size_t e = 0; e < rows.size(); ++e) {
      is_used[e] = rows[e] > 0 && is_selected[e] != 0 ? 1 : 0;
      const bool has_slot = slots_.find(static_cast<std::int64_t>(e), 0) != nullptr;
      is_copied[e] = is_used[e] != 0 && !has_slot ? 1 : 0;
    }
    run_groups(pairs, is_used, is_copied, unpacked, gpu);
    const auto num_copied = static_cast<double>(std::ranges::count(is_copied, std::uint8_t{1}));
    copies_most_ = num_copied >= kCopyAheadShare * static_cast<double>(rows.size());
    if (next_ != nullptr && copies_most_) next_->weights_.start_ahead(ring);
  }

  std::uint64_t streamed_bytes() const override { return weights_.streamed_bytes(); }

 private:
  void run_groups(const ExpertPairs& pairs,
                  const ExpertMask& is_used,
                  const ExpertMask& is_copied,
                  TensorView unpacked,
                  CudaContext& gpu) {
    ExpertRing& ring = gpu.expert_ring();
    const std::vector<std::int64_t> groups = used_groups(is_used);
    // Groups are copied in their order: without the first, others are of a pass that failed.
    const bool has_first = !groups.empty() && ring.holds(weights_.key(groups.front()));
    ring.drop_unless([&](ExpertRing::Key key) {
      return has_first && key == weights_.key(key.group) &&
             std::ranges::binary_search(groups, key.group);
    });
    std::size_t num_started = 0;
    for (const std::int64_t group : groups) {
      for (; num_started < groups.size(); ++num_started) {
        if (ring.holds(weights_.key(groups[num_started]))) continue;
        if (!ring.can_start()) break;
        weights_.start(groups[num_started], is_copied, ring);
      }
      const std::byte* slot = ring.wait_for(weights_.key(group), gpu.compute_stream());
      const kernels::cuda::ExpertGroup experts =
          weights_.unpack(group, is_used, slot, slots_, unpacked, gpu.stream());
      ring.release(weights_.key(group), gpu.compute_stream());
      pairs.add(experts);
    }
  }

  // Ascending.
  std::vector<std::int64_t> used_groups(const ExpertMask& is_used) const {
    std::vector<std::int64_t> groups;
    for (std::int64_t group = 0; group < weights_.copies().num_groups(); ++group) {
      const ExpertRange experts = weights_.copies().experts_of(group);
      const auto begin = is_used.begin() + experts.begin;
      if (std::any_of(begin, begin + experts.size(), [](std::uint8_t used) { return used != 0; }))
        groups.push_back(group);
    }
    return groups;
  }

  std::string module_;
  ExpertsParams params_;
  Device device_;
  Precision precision_;
  DType dtype_;  // of the weights in products
  DeviceEpilogue epilogue_;
  StreamedWeights weights_;
  ResidentSlots slots_;
  DeviceExpertsCuda* next_ = nullptr;  // of the next layer
  bool is_first_ = false;              // of the layers
  bool copies_most_ = false;           // in the last pass
};

}  // namespace

std::unique_ptr<Operator> make_hybrid_experts_cuda(const BuildContext& context) {
  return make_hybrid_experts(context, std::make_unique<DeviceExpertsCuda>(context));
}

}  // namespace graft::ops::cuda
