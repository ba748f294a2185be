#include "graft/ops/experts/hybrid_experts.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/base/text/str.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/devices/device_bridge.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/experts/resident_set.h"

namespace graft::ops {
namespace {

// The CPU reads the weights of an expert however few rows it has: about the bandwidth of PCIe over
// that of host memory, in units of a copy.
constexpr double kMinCpuCost = 0.55;
// Below this share of experts for the CPU, copying its rows and waiting for it costs more than it
// saves: passes that long are bound by the GPU, not by PCIe.
constexpr double kMinCpuShare = 0.15;
// Swaps of a layer that start together, and the passes between two such starts. All layers of a
// large model then copy a small part of what the CPU reads in the same time.
constexpr std::size_t kSwapsAtOnce = 2;
constexpr std::int64_t kPassesPerSwap = 4;

std::size_t index(std::int64_t expert) {
  return static_cast<std::size_t>(expert);
}

// The part of the CPU: all experts but those that the GPU computes. Counts the routing, which
// reaches the host in every pass that has a part for the CPU.
class HostPart final : public Experts {
 public:
  HostPart(Experts& experts, std::int64_t num_experts)
      : experts_(experts), is_elsewhere_(index(num_experts), 0), pairs_(index(num_experts), 0) {}

  void load(WeightProvider& /*weights*/) override {}
  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    const Workspace::Scope scope(pass.workspace);
    const TensorView ids =
        pass.workspace.allocate(DType::I32, {routing.expert_ids.rows(), routing.expert_ids.cols()});
    const auto* from = routing.expert_ids.as<std::int32_t>();
    auto* to = ids.as<std::int32_t>();
    for (std::int64_t i = 0; i < ids.num_elems(); ++i) {
      to[i] = from[i];
      if (from[i] < 0) continue;
      if (is_counting_) ++pairs_[index(from[i])];
      if (is_elsewhere_[index(from[i])] != 0) to[i] = -1;
    }
    experts_.forward(x, {.expert_ids = ids, .weights = routing.weights}, y, pass);
  }

  // For the passes from now on, replayed ones included.
  void skip(ExpertMask is_elsewhere) {
    is_elsewhere_ = std::move(is_elsewhere);
    is_counting_ = true;
  }
  // For one pass, whose pairs the device has counted.
  void skip_counted(ExpertMask is_elsewhere, std::span<const std::int64_t> rows) {
    is_elsewhere_ = std::move(is_elsewhere);
    is_counting_ = false;
    for (std::size_t e = 0; e < rows.size(); ++e)
      pairs_[e] += static_cast<std::uint64_t>(rows[e]);
  }
  // By expert, since the last call.
  std::vector<std::uint64_t> take_pairs() {
    return std::exchange(pairs_, std::vector<std::uint64_t>(pairs_.size(), 0));
  }

 private:
  Experts& experts_;
  ExpertMask is_elsewhere_;
  std::vector<std::uint64_t> pairs_;
  bool is_counting_ = true;
};

class HybridExperts final : public Experts {
 public:
  HybridExperts(const BuildContext& context, std::unique_ptr<DeviceExperts> device)
      : device_(context.device),
        num_experts_(context.params_as<ExpertsParams>().num_experts),
        top_k_(context.params_as<ExpertsParams>().top_k),
        num_slots_(context.int_kwarg(gpu_experts_kwarg())),
        stream_from_(context.int_kwarg(stream_from_kwarg())),
        break_even_rows_(static_cast<double>(stream_from_ * top_k_) /
                         static_cast<double>(num_experts_)),
        cpu_experts_(dynamic_cast<Experts&>(*context.host_op)),
        host_part_(cpu_experts_, num_experts_),
        bridge_(for_caller_on(context.device, host_part_, kCpu, Role::Experts)),
        on_cpu_(dynamic_cast<Experts&>(*bridge_)),
        gpu_(std::move(device)) {}

  void expect_pairs(const std::vector<std::uint64_t>& pairs) override { expected_ = pairs; }

  void load(WeightProvider& weights) override {
    residents_ = ResidentSet(num_experts_, num_slots_);
    total_pairs_.assign(index(num_experts_), 0);
    const std::vector<std::int64_t> first = residents_.choose(expected_);
    support_ = gpu_->load(cpu_experts_.host_store(), num_slots_, first, weights);
    if (!support_.problem.empty()) {
      weights.warn(str("the CPU computes all experts: ", support_.problem));
      residents_ = ResidentSet(num_experts_, 0);
    } else if (num_slots_ > 0 && !support_.can_fill_later) {
      weights.warn(
          "the memory of the experts is not page-locked: those in GPU memory stay the same");
    }
    host_part_.skip(resident_mask());
  }

  void unload() override {
    swaps_.clear();
    gpu_->unload();
  }

  void before_pass(Pass& pass) override {
    collect_pairs();
    if (!swaps_.empty() && gpu_->is_filled()) finish_swaps(pass);
    if (++num_passes_ % kPassesPerSwap == 0 && swaps_.empty() && can_swap()) start_swaps(pass);
    host_part_.skip(resident_mask());
    if (is_streamed(pass.batch.num_tokens(), pass)) gpu_->before_streamed_pass(pass);
  }

  void begin(const Activation& x, Routing routing, Pass& pass) override {
    if (!is_streamed(x.rows(), pass)) on_cpu_.begin(x, routing, pass);
  }

  void end(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    if (is_streamed(x.rows(), pass)) return forward_streamed(x, routing, y, pass);
    if (!has_residents()) return on_cpu_.end(x, routing, y, pass);
    const Workspace::Scope scope(pass.workspace);
    const TensorView from_gpu = pass.workspace.f32({y.rows(), y.cols()});
    gpu_->forward_resident(x, routing, from_gpu, pass);
    on_cpu_.end(x, routing, y, pass);
    pass.devices->at(device_).add(y, from_gpu, pass);
  }

  void forward(const Activation& x, Routing routing, TensorView y, Pass& pass) override {
    begin(x, routing, pass);
    end(x, routing, y, pass);
  }

  void reset_usage() override {
    host_part_.take_pairs();
    residents_.forget();
    total_pairs_.assign(total_pairs_.size(), 0);
    resident_pairs_ = 0;
  }

  ExpertUsage usage() const override {
    return {.pairs = total_pairs_,
            .resident = residents_.residents(),
            .resident_pairs = resident_pairs_,
            .streamed_bytes = gpu_->streamed_bytes()};
  }

 private:
  bool has_residents() const { return support_.problem.empty() && num_slots_ > 0; }
  bool can_swap() const { return has_residents() && support_.can_fill_later; }
  bool is_streamed(std::int64_t rows, const Pass& pass) const {
    return support_.problem.empty() && pass.phase == Phase::Prefill &&
           rows >= min_streamed_rows(stream_from_);
  }

  void forward_streamed(const Activation& x, Routing routing, TensorView y, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    bool has_cpu_part = false;
    gpu_->forward_streamed(x, routing, y, pass, [&](std::span<const std::int64_t> rows) {
      ExpertMask on_gpu = split_by_cost(rows, resident_mask(), break_even_rows_);
      for (std::size_t e = 0; e < rows.size(); ++e)
        has_cpu_part = has_cpu_part || (rows[e] > 0 && on_gpu[e] == 0);
      host_part_.skip_counted(on_gpu, rows);
      if (has_cpu_part) on_cpu_.begin(x, routing, pass);
      return on_gpu;
    });
    if (!has_cpu_part) return;
    const TensorView from_cpu = pass.workspace.f32({y.rows(), y.cols()});
    on_cpu_.end(x, routing, from_cpu, pass);
    pass.devices->at(device_).add(y, from_cpu, pass);
  }

  // Of the passes since the last call.
  void collect_pairs() {
    std::int64_t num_pairs = 0;
    const std::vector<std::uint64_t> by_expert = host_part_.take_pairs();
    for (std::size_t e = 0; e < by_expert.size(); ++e) {
      const auto expert = static_cast<std::int64_t>(e);
      const auto pairs = static_cast<std::int64_t>(by_expert[e]);
      total_pairs_[e] += by_expert[e];
      if (residents_.is_resident(expert)) resident_pairs_ += by_expert[e];
      residents_.count(expert, pairs);
      num_pairs += pairs;
    }
    residents_.fade(num_pairs / top_k_);
  }

  // The old experts run on the CPU from this pass on, the new ones on the GPU when their copies are
  // there.
  void start_swaps(Pass& pass) {
    while (swaps_.size() < kSwapsAtOnce) {
      const std::optional<ResidentSet::Swap> swap = residents_.begin_swap();
      if (!swap) return;
      try {
        gpu_->set_slot(swap->out, -1, pass);
        gpu_->start_fill(swap->slot, swap->in, pass);
      } catch (...) {
        residents_.abandon(*swap);
        throw;
      }
      swaps_.push_back(*swap);
    }
  }
  void finish_swaps(Pass& pass) {
    for (const ResidentSet::Swap& swap : swaps_) {
      gpu_->set_slot(swap.in, swap.slot, pass);
      residents_.finish(swap);
    }
    swaps_.clear();
  }

  ExpertMask resident_mask() const {
    ExpertMask mask(index(num_experts_), 0);
    for (std::int64_t expert = 0; expert < num_experts_; ++expert)
      mask[index(expert)] = residents_.is_resident(expert) ? 1 : 0;
    return mask;
  }

  Device device_;
  std::int64_t num_experts_;
  std::int64_t top_k_;
  std::int64_t num_slots_;
  std::int64_t stream_from_;  // rows of a pass
  double break_even_rows_;
  Experts& cpu_experts_;  // holds the weights
  HostPart host_part_;
  std::unique_ptr<Operator> bridge_;
  Experts& on_cpu_;  // the bridge to host_part_
  std::unique_ptr<DeviceExperts> gpu_;
  DeviceExperts::Support support_;
  ResidentSet residents_;
  std::vector<ResidentSet::Swap> swaps_;  // in progress
  std::int64_t num_passes_ = 0;
  std::vector<std::uint64_t> expected_;     // pairs by expert of an earlier run
  std::vector<std::uint64_t> total_pairs_;  // by expert
  std::uint64_t resident_pairs_ = 0;
};

}  // namespace

ExpertMask split_by_cost(std::span<const std::int64_t> rows,
                         const ExpertMask& is_resident,
                         double break_even_rows) {
  ExpertMask on_gpu = is_resident;
  if (break_even_rows < 1) {
    on_gpu.assign(rows.size(), 1);
    return on_gpu;
  }
  std::vector<std::size_t> used;
  double cpu_cost = 0;  // of the experts that are not copied, in units of a copy
  const auto cost = [&](std::size_t expert) {
    return std::max(kMinCpuCost, static_cast<double>(rows[expert]) / break_even_rows);
  };
  for (std::size_t e = 0; e < rows.size(); ++e) {
    if (rows[e] == 0 || is_resident[e] != 0) continue;
    used.push_back(e);
    cpu_cost += cost(e);
  }
  std::ranges::stable_sort(used, std::ranges::greater(),
                           [&](std::size_t expert) { return rows[expert]; });
  std::size_t num_copied = 0;
  while (num_copied < used.size() && static_cast<double>(num_copied + 1) <= cpu_cost)
    cpu_cost -= cost(used[num_copied++]);
  const auto num_left = static_cast<double>(used.size() - num_copied);
  if (num_left < kMinCpuShare * static_cast<double>(used.size())) num_copied = used.size();
  for (std::size_t i = 0; i < num_copied; ++i)
    on_gpu[used[i]] = 1;
  return on_gpu;
}

std::unique_ptr<Operator> make_hybrid_experts(const BuildContext& context,
                                              std::unique_ptr<DeviceExperts> device) {
  return std::make_unique<HybridExperts>(context, std::move(device));
}

}  // namespace graft::ops
