#include "graft/ops/cuda/streamed_experts.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/cuda/expert_pairs.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/streamed_weights.h"
#include "graft/ops/device_bridge.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// The memory of the ring: enough to copy ahead while the GPU computes attention.
constexpr std::size_t kRingBytes = std::size_t{768} << 20U;
// From this share of used experts on, the next layer's experts are copied before its router ran.
constexpr double kCopyAheadShare = 0.9;

class StreamedExperts final : public Experts {
 public:
  explicit StreamedExperts(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        device_(context.device),
        dtype_(precision_kwarg(context) == Precision::Fast ? DType::F16 : DType::F32),
        stream_from_(context.int_kwarg(stream_from_kwarg())),
        cpu_experts_(dynamic_cast<Experts&>(*context.host_op)),
        bridge_(for_caller_on(context.device, cpu_experts_, kCpu, Role::Experts)),
        on_cpu_(dynamic_cast<Experts&>(*bridge_)) {}

  void load(WeightProvider& weights) override {
    const ExpertStore store = cpu_experts_.host_store();
    const std::string obstacle = StreamedWeights::obstacle(store);
    if (!obstacle.empty())
      return weights.warn(str("prefill computes the experts on the CPU: ", obstacle));
    const std::string problem = weights_.load(store, device_, weights);
    if (!problem.empty()) {
      weights.warn(str("the system does not lock the memory of the experts (", problem,
                       "): prefill copies them to the GPU slowly"));
    }
    // Operators are loaded in the order of the layers.
    std::shared_ptr<void>& kept =
        weights.kept_while_loading(str("streamed experts on ", to_string(device_)));
    if (kept != nullptr) (*std::static_pointer_cast<StreamedExperts*>(kept))->next_ = this;
    kept = std::make_shared<StreamedExperts*>(this);
  }

  void unload() override {
    // Experts may be on their way in advance.
    use_gpu(device_.index);
    cudaDeviceSynchronize();
    weights_.unload();
    next_ = nullptr;
  }

  void begin(const Activation& x, Routing routing, Pass& pass) override {
    if (!is_streamed(x.rows())) on_cpu_.begin(x, routing, pass);
  }
  void end(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    if (is_streamed(x.rows())) return forward_streamed(x.f32, routing, y, pass);
    on_cpu_.end(x, routing, y, pass);
  }
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    begin(x, routing, pass);
    end(x, routing, y, pass);
  }

 private:
  bool is_streamed(std::int64_t rows) const { return !weights_.empty() && rows >= stream_from_; }

  // Copies group after group, as far ahead as the ring has slots, and computes each when it has
  // arrived.
  void forward_streamed(TensorView x, Routing routing, TensorView y, Pass& pass) {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    ExpertRing& ring = gpu.expert_ring();
    ring.reserve(weights_.copies().group_bytes(),
                 std::min(kRingBytes, weights_.layer_bytes() + weights_.copies().group_bytes()));
    const TensorView unpacked = pass.workspace.allocate(dtype_, {weights_.group_elements(), 1});
    const ExpertPairs pairs({.x = x, .routing = routing, .y = y}, params_, dtype_, gpu, pass);
    const std::vector<std::uint8_t> is_used = pairs.used_experts();
    const std::vector<std::int64_t> groups = used_groups(is_used);
    ring.drop_unless([&](ExpertRing::Key key) {
      return key == weights_.key(key.group) && std::ranges::binary_search(groups, key.group);
    });
    std::size_t num_started = 0;
    for (const std::int64_t group : groups) {
      for (; num_started < groups.size(); ++num_started) {
        if (ring.holds(weights_.key(groups[num_started]))) continue;
        if (!ring.can_start()) break;
        weights_.start(groups[num_started], is_used, ring);
      }
      const std::byte* slot = ring.wait_for(weights_.key(group), gpu.compute_stream());
      const kernels::cuda::ExpertGroup experts =
          weights_.unpack(group, is_used, slot, unpacked, gpu.stream());
      ring.release(weights_.key(group), gpu.compute_stream());
      pairs.add(experts);
    }
    const auto num_used = static_cast<double>(std::ranges::count(is_used, std::uint8_t{1}));
    const bool uses_most = num_used >= kCopyAheadShare * static_cast<double>(is_used.size());
    if (next_ != nullptr && uses_most) next_->weights_.start_ahead(ring);
  }

  // Ascending.
  std::vector<std::int64_t> used_groups(const std::vector<std::uint8_t>& is_used) const {
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
  DType dtype_;               // of the weights in products
  std::int64_t stream_from_;  // rows of a pass
  Experts& cpu_experts_;      // holds the weights
  std::unique_ptr<Operator> bridge_;
  Experts& on_cpu_;  // the bridge to cpu_experts_
  StreamedWeights weights_;
  StreamedExperts* next_ = nullptr;  // of the next layer
};

}  // namespace

std::unique_ptr<Operator> make_streamed_experts(const BuildContext& context) {
  return std::make_unique<StreamedExperts>(context);
}

}  // namespace graft::ops::cuda
