#include "graft/perf/gpu_experts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <variant>

namespace graft::perf {
namespace {

// Of the operator (graft/ops/cuda/streamed_experts.cpp, expert_pairs.cpp).
constexpr double kRingBytes = 768.0 * (1 << 20U);
constexpr double kGroupBytes = 96.0 * (1 << 20U);
constexpr double kRowsBytes = 1024.0 * (1 << 20U);
constexpr double kF16Bytes = 2;
constexpr std::int64_t kMaxContext = 32768;

// An expert's rows: the input, gate, up and the output, of which some are f32.
double row_bytes(const ops::ExpertsParams& params) {
  return 4.0 * static_cast<double>(params.top_k) *
         static_cast<double>(2 * params.intermediate_size + params.hidden_size);
}

// The copies of one expert in every layer of `gpu` that is `auto`.
struct AutoLayers {
  double bytes = 0;
  std::int64_t max_count = std::numeric_limits<std::int64_t>::max();
};

std::map<Device, AutoLayers> auto_layers(const plan::Plan& plan) {
  std::map<Device, AutoLayers> by_gpu;
  for (const plan::Placement& placement : plan.placements) {
    const auto* params = std::get_if<ops::ExpertsParams>(&placement.module->params);
    if (params == nullptr || params->num_experts == 0 || !plan::has_auto_gpu_experts(placement))
      continue;
    AutoLayers& layers = by_gpu[placement.prefill.device()];
    layers.bytes +=
        static_cast<double>(placement.weight_bytes) / static_cast<double>(params->num_experts);
    layers.max_count = std::min(layers.max_count, params->num_experts);
  }
  return by_gpu;
}

// Copies per layer by GPU.
std::map<Device, std::int64_t> counts_that_fit(const plan::Plan& plan,
                                               const MachineFigures& machine,
                                               const Workload& load) {
  std::map<Device, std::int64_t> counts;
  const std::map<Device, AutoLayers> by_gpu = auto_layers(plan);
  if (by_gpu.empty()) return counts;
  const Estimate placed = estimate(plan, machine, load);
  for (const auto& [gpu, layers] : by_gpu) {
    const MemoryUse& use = placed.devices.at(gpu);
    const double left =
        kUsableShare * static_cast<double>(use.capacity) - static_cast<double>(use.total());
    const double count = layers.bytes > 0 ? std::max(0.0, left / layers.bytes) : 0;
    counts[gpu] = std::min(static_cast<std::int64_t>(count), layers.max_count);
  }
  return counts;
}

}  // namespace

double stream_buffer_bytes(const plan::ModuleSpec& module,
                           const ops::ExpertsParams& params,
                           const Workload& load) {
  double layer = 0;
  double elems = 0;
  for (const plan::WeightSpec& weight : module.weights) {
    layer += static_cast<double>(weight.bytes());
    elems += static_cast<double>(weight.num_elems());
  }
  const double expert = layer / static_cast<double>(std::max<std::int64_t>(params.num_experts, 1));
  const double group = std::min(std::max(kGroupBytes, expert), layer);
  const double ring = std::max(std::min(kRingBytes, layer + group), 2 * group);
  const double unpacked = layer > 0 ? kF16Bytes * elems * group / layer : 0;
  const auto rows = static_cast<double>(std::max(load.prefill_tokens, load.parallel));
  return ring + unpacked + std::min(kRowsBytes, rows * row_bytes(params));
}

std::map<Device, std::uint64_t> stream_buffer_bytes(const plan::Plan& plan, const Workload& load) {
  std::map<Device, std::uint64_t> by_gpu;
  for (const plan::Placement& placement : plan.placements) {
    const auto* params = std::get_if<ops::ExpertsParams>(&placement.module->params);
    if (params == nullptr || plan::stream_from(placement) == 0) continue;
    std::uint64_t& bytes = by_gpu[placement.prefill.device()];
    bytes = std::max(
        bytes, static_cast<std::uint64_t>(stream_buffer_bytes(*placement.module, *params, load)));
  }
  return by_gpu;
}

double hit_rate(const plan::Plan& plan,
                const std::map<std::string, std::vector<std::uint64_t>>& pairs) {
  double hits = 0;
  double all = 0;
  for (const plan::Placement& placement : plan.placements) {
    const auto found = pairs.find(placement.module->name);
    if (found == pairs.end() || plan::gpu_experts(placement) == 0) continue;
    std::vector<std::uint64_t> used = found->second;
    std::ranges::sort(used, std::ranges::greater());
    const auto copies =
        std::min(static_cast<std::size_t>(plan::gpu_experts(placement)), used.size());
    for (std::size_t i = 0; i < used.size(); ++i) {
      all += static_cast<double>(used[i]);
      hits += i < copies ? static_cast<double>(used[i]) : 0;
    }
  }
  return all > 0 ? hits / all : 0;
}

std::int64_t default_context(const plan::Blueprint& blueprint) {
  return blueprint.max_context > 0 ? std::min(blueprint.max_context, kMaxContext) : kMaxContext;
}

void resolve_gpu_experts(plan::Plan& plan, const MachineFigures& machine, const Workload& load) {
  Workload placed = load;
  if (load.context == 0) placed.context = default_context(*plan.blueprint);
  if (load.prefill_tokens == 0) placed.prefill_tokens = kStreamedTokens;
  auto counts = counts_that_fit(plan, machine, placed);
  if (load.prefill_tokens == 0) {
    placed.prefill_tokens = kPlacedTokens;
    const auto layers = auto_layers(plan);
    for (const auto& [gpu, count] : counts_that_fit(plan, machine, placed)) {
      if (!prefers_long_passes(counts[gpu], count, layers.at(gpu).max_count)) counts[gpu] = count;
    }
  }
  for (plan::Placement& placement : plan.placements) {
    if (plan::has_auto_gpu_experts(placement))
      plan::set_gpu_experts(placement, counts[placement.prefill.device()]);
  }
}

}  // namespace graft::perf
