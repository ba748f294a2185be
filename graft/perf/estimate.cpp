#include "graft/perf/estimate.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "graft/base/check.h"
#include "graft/perf/work.h"

namespace graft::perf {
namespace {

using ops::Role;

// A hop between devices costs this beside its bytes: a launch, a synchronisation.
constexpr double kHopSeconds = 20e-6;
constexpr double kF32Bytes = 4;

class Clock {
 public:
  explicit Clock(const MachineFigures& machine) : machine_(machine) {}

  // The slower of reading and computing counts; both run at once.
  void add_weights(Device device, const Work& work) {
    if (device.type == DeviceType::Cuda) {
      const GpuFigures& gpu = gpu_at(device);
      slower(work.weight_bytes / gpu.read_bytes_per_s, to_string(device) + " memory",
             work.weight_flops / gpu.flops, to_string(device) + " arithmetic");
      return;
    }
    const auto rate = machine_.cpu_rates.find(work.dtype);
    if (rate == machine_.cpu_rates.end()) {
      slower(work.weight_bytes / machine_.cpu.read_bytes_per_s, "cpu memory",
             work.weight_flops / machine_.cpu.flops, "cpu arithmetic");
    } else {
      slower(work.weight_bytes / rate->second.read_bytes_per_s,
             "cpu weights of " + std::string(name(work.dtype)),
             work.weight_flops / rate->second.flops, "cpu arithmetic");
    }
  }
  // Plain reading and arithmetic, no weights.
  void add_context(Device device, double bytes, double flops) {
    if (device.type == DeviceType::Cuda) {
      add_weights(device, {.weight_bytes = bytes, .weight_flops = flops});
    } else {
      slower(bytes / machine_.cpu.read_bytes_per_s, "cpu context", flops / machine_.cpu.flops,
             "cpu context");
    }
  }
  // What the operator costs however little it does.
  void call(Device device) {
    if (device.type == DeviceType::Cpu && machine_.cpu.call_seconds > 0)
      seconds_["cpu calls"] += machine_.cpu.call_seconds;
  }
  void hop(Device from, Device to, double bytes) {
    if (from == to) return;
    const Device gpu = from.type == DeviceType::Cuda ? from : to;
    seconds_["pcie"] += kHopSeconds + bytes / gpu_at(gpu).pcie_bytes_per_s;
  }

  Speed speed(double tokens) const {
    Speed speed;
    double total = 0;
    for (const auto& [resource, seconds] : seconds_)
      total += seconds;
    speed.seconds = seconds_;
    if (total <= 0) return speed;
    speed.tokens_per_s = tokens / total;
    const auto worst =
        std::ranges::max_element(seconds_, {}, [](const auto& row) { return row.second; });
    speed.limit =
        fmt::format("{} ({:.0f} % of the time)", worst->first, 100 * worst->second / total);
    return speed;
  }

 private:
  const GpuFigures& gpu_at(Device device) const {
    const auto idx = static_cast<std::size_t>(device.index);
    GRAFT_CHECK(idx < machine_.gpus.size(), to_string(device));
    return machine_.gpus[idx];
  }
  void slower(double reading,
              const std::string& memory,
              double computing,
              const std::string& units) {
    if (reading >= computing) {
      seconds_[memory] += reading;
    } else {
      seconds_[units] += computing;
    }
  }

  const MachineFigures& machine_;
  std::map<std::string, double> seconds_;
};

Device device_of(const plan::Placement& placement, Phase phase) {
  return phase == Phase::Prefill ? placement.prefill_device : placement.generate_device;
}

void add_module(Clock& clock,
                const plan::Plan& plan,
                const plan::Placement& placement,
                const PassSize& pass) {
  const plan::ModuleSpec& module = *placement.module;
  const Device device = device_of(placement, pass.phase);
  const Work work = module_work(plan, placement, pass);
  clock.add_weights(device, work);
  clock.add_context(device, work.context_bytes, work.context_flops);
  if (!module.weights.empty() || module.role == Role::Attention) clock.call(device);
}

Speed speed_of(const plan::Plan& plan,
               const MachineFigures& machine,
               const Load& load,
               Phase phase) {
  const PassSize pass = phase == Phase::Prefill
                            ? prefill_pass(load.prefill_tokens)
                            : generate_pass(load.parallel, static_cast<double>(load.context));
  Clock clock(machine);
  Device hidden_at;
  double hidden_bytes = 0;
  bool first = true;
  for (const plan::Placement& placement : plan.placements) {
    const plan::ModuleSpec& module = *placement.module;
    add_module(clock, plan, placement, pass);
    if (const auto* norm = std::get_if<ops::NormParams>(&module.params))
      hidden_bytes = std::max(hidden_bytes, kF32Bytes * static_cast<double>(norm->size));
    if (module.weights.empty()) continue;
    const Device device = device_of(placement, phase);
    if (!first) clock.hop(hidden_at, device, pass.rows * hidden_bytes);
    hidden_at = device;
    first = false;
  }
  return clock.speed(pass.rows);
}

// Activations of one prefill chunk: the widest rows an operator of each kind holds at once.
double workspace_row_bytes(const plan::ModuleSpec& module) {
  struct Widest {
    double operator()(const ops::AttentionParams& p) const {
      return static_cast<double>((2 * p.num_heads + 2 * p.num_key_value_heads) * p.head_dim);
    }
    double operator()(const ops::MlaParams& p) const {
      const std::int64_t head =
          p.qk_nope_head_dim + p.qk_rope_head_dim + p.v_head_dim + p.kv_lora_rank;
      return static_cast<double>(p.num_heads * head + p.q_lora_rank + p.kv_lora_rank);
    }
    double operator()(const ops::MlpParams& p) const {
      return static_cast<double>(2 * p.intermediate_size + 2 * p.hidden_size);
    }
    double operator()(const ops::ExpertsParams& p) const {
      return static_cast<double>(p.top_k * (2 * p.intermediate_size + p.hidden_size) +
                                 p.hidden_size);
    }
    double operator()(const ops::NormParams& p) const { return 3.0 * static_cast<double>(p.size); }
    double operator()(const ops::NoParams&) const { return 0; }
    double operator()(const ops::EmbeddingParams&) const { return 0; }
    double operator()(const ops::LinearParams&) const { return 0; }
    double operator()(const ops::RopeParams&) const { return 0; }
    double operator()(const ops::KvCacheParams&) const { return 0; }
    double operator()(const ops::RouterParams& p) const {
      return static_cast<double>(p.num_experts);
    }
  };
  return kF32Bytes * std::visit(Widest{}, module.params);
}

std::map<Device, MemoryUse> bytes_of(const plan::Plan& plan,
                                     const MachineFigures& machine,
                                     const Load& load) {
  std::map<Device, MemoryUse> devices;
  std::map<Device, double> widest;
  devices[kCpu].capacity = machine.cpu.dram_bytes;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    devices[{DeviceType::Cuda, static_cast<std::int32_t>(i)}].capacity = machine.gpus[i].vram_bytes;
  const double cached_tokens =
      static_cast<double>(load.context) * static_cast<double>(load.parallel);
  for (const plan::Placement& placement : plan.placements) {
    MemoryUse& at = devices[placement.generate_device];
    at.weights += placement.weight_bytes;
    // Another operator or device for prefill holds a copy of its own.
    if (placement.prefill_device != placement.generate_device)
      devices[placement.prefill_device].weights += placement.weight_bytes;
    at.kv_cache += static_cast<std::uint64_t>(kv_bytes_per_token(placement) * cached_tokens);
    double& row = widest[placement.generate_device];
    row = std::max(row, workspace_row_bytes(*placement.module));
  }
  const auto rows = static_cast<double>(std::max(load.prefill_tokens, load.parallel));
  for (auto& [device, row] : widest)
    devices[device].workspace = static_cast<std::uint64_t>(row * rows);
  const double logits = kF32Bytes * static_cast<double>(load.parallel) *
                        static_cast<double>(plan.blueprint->vocab_size);
  devices[kCpu].workspace += static_cast<std::uint64_t>(logits);
  return devices;
}

}  // namespace

bool Estimate::fits() const {
  return std::ranges::all_of(devices, [](const auto& row) { return row.second.fits(); });
}

Estimate estimate(const plan::Plan& plan, const MachineFigures& machine, const Load& load) {
  return {.devices = bytes_of(plan, machine, load),
          .generate = speed_of(plan, machine, load, Phase::Decode),
          .prefill = speed_of(plan, machine, load, Phase::Prefill)};
}

}  // namespace graft::perf
