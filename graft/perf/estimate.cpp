#include "graft/perf/estimate.h"

#include <algorithm>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "graft/base/check.h"
#include "graft/base/text/units.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/perf/achieved.h"
#include "graft/perf/disk_reads.h"
#include "graft/perf/gpu_experts.h"
#include "graft/perf/work.h"
#include "graft/plan/experts/deferral.h"

namespace graft::perf {
namespace {

using ops::Role;

// Fixed cost of a copy between devices beside its bytes: launch and synchronization.
constexpr double kTransferSeconds = 20e-6;

// Where the CPU and the stream to the GPU share the experts of a prefill pass, relative to the
// tokens from which on streaming alone is faster. Shorter passes run on the CPU, longer ones are
// streamed completely.
constexpr double kMinSplit = 0.25;
constexpr double kMaxSplit = 5.7;  // a share of less than 15 % is not left to the CPU

// Seconds of a resource, by the name that PhaseEstimate::seconds has.
struct Cost {
  std::string resource;
  double seconds = 0;
};

double total_of(const std::vector<Cost>& costs) {
  double total = 0;
  for (const Cost& cost : costs)
    total += cost.seconds;
  return total;
}

// Adds up the seconds of one pass, by resource. The resource names are the keys of
// PhaseEstimate::seconds.
class ResourceTimes {
 public:
  explicit ResourceTimes(const MachineFigures& machine) : machine_(machine) {}

  // Reading and multiplying are added: measured times of few rows are close to the sum.
  std::vector<Cost> costs_of(Device device, const Work& work) const {
    if (device.type == DeviceType::Cuda) {
      const GpuFigures& gpu = gpu_at(device);
      return {{to_string(device) + " memory",
               work.weight_bytes / (kGpuReadShare * gpu.read_bytes_per_s)},
              gpu_product_cost(device, work)};
    }
    const auto rate = machine_.cpu_rates.find(work.dtype);
    if (rate == machine_.cpu_rates.end()) {
      const double factor = is_quantized(work.dtype) ? kCpuInt8Factor : 1;
      return {{"cpu memory", work.weight_bytes / (kCpuReadShare * machine_.cpu.read_bytes_per_s)},
              {"cpu arithmetic", work.weight_flops / (factor * machine_.cpu.flops)}};
    }
    return {{"cpu weights of " + std::string(name(work.dtype)),
             work.weight_bytes / rate->second.read_bytes_per_s},
            {"cpu arithmetic", work.weight_flops / rate->second.flops}};
  }
  Cost stream_cost(Device gpu, const Work& work) {
    streamed_bytes_ += work.weight_bytes;
    return {"pcie", work.weight_bytes / gpu_at(gpu).pcie_bytes_per_s};
  }
  // The fixed cost of an operator call. On GPUs only in decode: kernels of a prompt run longer than
  // the launch of the next one.
  Cost call_cost(Device device, const plan::ModuleSpec& module, Phase phase) const {
    if (device.type != DeviceType::Cuda) return {"cpu calls", machine_.cpu.call_seconds};
    const int kernels = phase == Phase::Decode ? num_kernels(module.role) : 0;
    return {to_string(device) + " launches",
            kernels * (gpu_at(device).launch_seconds + kGpuLatencySeconds)};
  }
  Cost transfer_cost(Device from, Device to, double bytes) const {
    if (from == to) return {"pcie", 0};
    const GpuFigures& gpu = gpu_at(from.type == DeviceType::Cuda ? from : to);
    const bool is_back = to.type == DeviceType::Cpu && gpu.pcie_back_bytes_per_s > 0;
    return {"pcie", kTransferSeconds +
                        bytes / (is_back ? gpu.pcie_back_bytes_per_s : gpu.pcie_bytes_per_s)};
  }

  void add(const Cost& cost) {
    if (cost.seconds > 0) seconds_[cost.resource] += cost.seconds;
  }
  void add(const std::vector<Cost>& costs) {
    for (const Cost& cost : costs)
      add(cost);
  }
  // Devices that work at the same time: the slowest counts.
  void add_slowest(const std::vector<std::vector<Cost>>& sides) {
    add(*std::ranges::max_element(sides, {}, total_of));
  }
  // The KV cache is read at memory bandwidth, not at the rate measured for a weight type.
  void add_context(Device device, const Work& work) {
    const double bytes = work.context_bytes;
    const double flops = work.context_flops;
    if (device.type == DeviceType::Cuda) {
      const GpuFigures& gpu = gpu_at(device);
      const std::string arithmetic = to_string(device) + " arithmetic";
      const double share = work.is_sparse ? kGpuSparseShare : kGpuAttentionShare;
      add(slower({to_string(device) + " memory", bytes / (kGpuReadShare * gpu.read_bytes_per_s)},
                 {arithmetic, flops / (share * gpu.flops)}));
      add({arithmetic, work.steps * kGpuStepSeconds});
    } else {
      add(slower({"cpu context", bytes / (kCpuReadShare * machine_.cpu.read_bytes_per_s)},
                 {"cpu context", flops / machine_.cpu.flops}));
    }
  }
  // Experts of the CPU that are added in the next layer: they run beside the modules of GPUs.
  void add_deferred(const std::vector<Cost>& costs) {
    deferred_.resource = costs.front().resource;
    deferred_.seconds += total_of(costs);
  }
  // Weights that cross from host memory while the GPU computes, also other modules: the slower of
  // the two counts.
  void add_streamed(Device gpu, const Work& work) {
    stream_seconds_ += stream_cost(gpu, work).seconds;
    add(gpu_product_cost(gpu, work));
  }

  PhaseEstimate speed(double tokens) const {
    PhaseEstimate speed;
    std::map<std::string, double> seconds = seconds_;
    if (const double left = deferred_.seconds - gpu_seconds(); left > 0)
      seconds[deferred_.resource] += left;
    const double computing = sum_of(seconds);
    const double total = std::max(computing, stream_seconds_);
    if (total <= 0 || seconds.empty()) return speed;
    speed.tokens_per_s = tokens / total;
    speed.streamed_bytes = streamed_bytes_;
    const auto longest =
        std::ranges::max_element(seconds, {}, [](const auto& row) { return row.second; });
    std::string slowest = longest->first;
    double most = longest->second;
    if (stream_seconds_ > computing) {
      seconds["pcie"] += stream_seconds_ - computing;
      slowest = "pcie";
      most = stream_seconds_;
    }
    speed.seconds = std::move(seconds);
    speed.limit = fmt::format("{} ({:.0f} % of the time)", slowest, 100 * most / total);
    return speed;
  }

  double total_seconds() const { return std::max(sum_of(seconds_), stream_seconds_); }

 private:
  static double sum_of(const std::map<std::string, double>& seconds) {
    double total = 0;
    for (const auto& [resource, value] : seconds)
      total += value;
    return total;
  }
  double gpu_seconds() const {
    double total = 0;
    for (const auto& [resource, value] : seconds_)
      total += resource.starts_with("cuda") ? value : 0;
    return total;
  }
  const GpuFigures& gpu_at(Device device) const {
    const auto idx = static_cast<std::size_t>(device.index);
    GRAFT_CHECK(idx < machine_.gpus.size(), to_string(device));
    return machine_.gpus[idx];
  }
  Cost gpu_product_cost(Device gpu, const Work& work) const {
    return {to_string(gpu) + " arithmetic",
            work.weight_flops / (gpu_product_share(work) * gpu_at(gpu).flops)};
  }
  static Cost slower(Cost memory, Cost compute) {
    return memory.seconds >= compute.seconds ? std::move(memory) : std::move(compute);
  }

  const MachineFigures& machine_;
  std::map<std::string, double> seconds_;
  Cost deferred_;
  double stream_seconds_ = 0;
  double streamed_bytes_ = 0;
};

// The share of the experts outside GPU memory that is streamed in a prefill pass; the CPU computes
// the others at the same time. At stream_from tokens both take equally long, and the time of the
// CPU grows with the tokens.
double streamed_share(const plan::Placement& placement, const PassSize& pass) {
  if (pass.phase == Phase::Decode) return 0;
  const double ratio = pass.rows / static_cast<double>(plan::stream_from(placement));
  if (ratio < kMinSplit) return 0;
  return ratio > kMaxSplit ? 1 : ratio / (1 + ratio);
}

// The part of the work of experts on the CPU that is added in the next layer.
double deferred_share(const plan::Placement& placement, const PassSize& pass) {
  const auto* params = std::get_if<ops::ExpertsParams>(&placement.module->params);
  if (params == nullptr || pass.phase == Phase::Prefill) return 0;
  return static_cast<double>(plan::deferred_experts(placement)) /
         static_cast<double>(params->top_k);
}

// The share of the routing that copies in GPU memory serve.
double resident_share(const plan::Placement& placement, const Workload& load) {
  if (plan::gpu_experts(placement) == 0) return 0;
  return load.hit_rate >= 0 ? load.hit_rate : placement.decode.shares.front().fraction;
}

double hit_rate_of(const plan::Plan& plan, const Workload& load) {
  double sum = 0;
  double num_layers = 0;
  for (const plan::Placement& placement : plan.placements) {
    if (plan::stream_from(placement) == 0) continue;
    sum += resident_share(placement, load);
    ++num_layers;
  }
  return num_layers > 0 ? sum / num_layers : 0;
}

// Experts in host memory that a GPU streams or has copies of.
void add_host_experts(ResourceTimes& times,
                      const plan::Placement& placement,
                      const Work& whole,
                      const PassSize& pass,
                      double resident) {
  const Device gpu = placement.prefill.device();
  const double streamed = (1 - resident) * streamed_share(placement, pass);
  const double on_cpu = 1 - resident - streamed;
  if (on_cpu <= 0) {
    if (resident > 0) times.add(times.costs_of(gpu, whole * resident));
    return times.add_streamed(gpu, whole * streamed);
  }
  const double deferred = on_cpu * deferred_share(placement, pass);
  const plan::ModuleSpec& module = *placement.module;
  std::vector<Cost> cpu_side = times.costs_of(kCpu, whole * (on_cpu - deferred));
  cpu_side.push_back(times.call_cost(kCpu, module, pass.phase));
  times.add_deferred(times.costs_of(kCpu, whole * deferred));
  if (placement.of(pass.phase).device() == gpu) {
    const auto* params = std::get_if<ops::ExpertsParams>(&module.params);
    const auto hidden = static_cast<double>(params == nullptr ? 0 : params->hidden_size);
    cpu_side.push_back(times.transfer_cost(gpu, kCpu, kF32Bytes * pass.rows * hidden));
    cpu_side.push_back(times.transfer_cost(kCpu, gpu, kF32Bytes * pass.rows * hidden));
  }
  std::vector<Cost> gpu_side = times.costs_of(gpu, whole * (resident + streamed));
  if (resident > 0) gpu_side.push_back(times.call_cost(gpu, module, pass.phase));
  times.add_slowest({cpu_side, gpu_side, {times.stream_cost(gpu, whole * streamed)}});
}

// Shares run one after the other here: an upper bound on the time of devices that overlap.
void add_module(ResourceTimes& times,
                const plan::Plan& plan,
                const plan::Placement& placement,
                const Workload& load,
                const PassSize& pass) {
  const plan::ModuleSpec& module = *placement.module;
  if (ops::is_vision(module.role)) return;  // runs per image, not per pass
  const Work whole = module_work(plan, placement, pass);
  if (plan::stream_from(placement) > 0)
    return add_host_experts(times, placement, whole, pass, resident_share(placement, load));
  for (const plan::Share& share : placement.of(pass.phase).shares) {
    const Work work = whole * share.fraction;
    const double deferred = deferred_share(placement, pass);
    times.add(times.costs_of(share.device, work * (1 - deferred)));
    times.add_deferred(times.costs_of(share.device, work * deferred));
    times.add_context(share.device, work);
    if (!module.weights.empty() || module.role == Role::Attention)
      times.add(times.call_cost(share.device, module, pass.phase));
  }
}

PassSize decode_pass_of(const Workload& load) {
  return decode_pass(load.parallel, static_cast<double>(load.context));
}

PhaseEstimate speed_of(const plan::Plan& plan,
                       const MachineFigures& machine,
                       const Workload& load,
                       Phase phase) {
  const PassSize pass =
      phase == Phase::Prefill ? prefill_pass(load.prefill_tokens) : decode_pass_of(load);
  ResourceTimes times(machine);
  Device hidden_device;  // where the hidden states are
  double hidden_bytes = 0;
  bool first = true;
  for (const plan::Placement& placement : plan.placements) {
    const plan::ModuleSpec& module = *placement.module;
    add_module(times, plan, placement, load, pass);
    if (const auto* norm = std::get_if<ops::NormParams>(&module.params))
      hidden_bytes = std::max(hidden_bytes, kF32Bytes * static_cast<double>(norm->size));
    if (module.weights.empty()) continue;
    const Device device = placement.of(phase).device();
    if (!first) times.add(times.transfer_cost(hidden_device, device, pass.rows * hidden_bytes));
    hidden_device = device;
    first = false;
  }
  return times.speed(pass.rows);
}

std::map<Device, MemoryUse> bytes_of(const plan::Plan& plan,
                                     const MachineFigures& machine,
                                     const Workload& load,
                                     const HostWeights& host = {}) {
  std::map<Device, MemoryUse> devices = memory_use(plan, load, host);
  devices[kCpu].capacity = machine.cpu.dram_bytes;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    devices[{DeviceType::Cuda, static_cast<std::int32_t>(i)}].capacity = machine.gpus[i].vram_bytes;
  return devices;
}

}  // namespace

bool Estimate::fits() const {
  return std::ranges::all_of(devices, [](const auto& row) { return row.second.fits(); });
}

bool Estimate::can_run() const {
  return std::ranges::all_of(devices, [](const auto& row) { return row.second.can_run(); });
}

std::string shortage_text(const Estimate& estimate) {
  std::string text;
  for (const auto& [device, bytes] : estimate.devices) {
    if (bytes.fits()) continue;
    text += fmt::format("{}{} needs {}, has {}", text.empty() ? "" : "; ", to_string(device),
                        bytes_text(bytes.total()), bytes_text(bytes.capacity));
  }
  return text;
}

std::int64_t stream_break_even(const plan::Plan& plan, const MachineFigures& machine) {
  constexpr std::int64_t kStep = 16;
  constexpr std::int64_t kMaxTokens = 16384;
  if (plan::stream_from(plan) == 0 || machine.gpus.empty()) return 0;
  for (std::int64_t tokens = kStep; tokens < kMaxTokens; tokens += kStep) {
    ResourceTimes streamed(machine);
    ResourceTimes on_cpu(machine);
    const PassSize pass = prefill_pass(tokens);
    for (const plan::Placement& placement : plan.placements) {
      if (plan::stream_from(placement) == 0) continue;
      const Work work = module_work(plan, placement, pass);
      streamed.add_streamed(placement.prefill.device(), work);
      on_cpu.add(on_cpu.costs_of(kCpu, work));
    }
    if (streamed.total_seconds() < on_cpu.total_seconds()) return tokens;
  }
  return kMaxTokens;
}

void set_stream_from(plan::Plan& plan, const MachineFigures& machine) {
  const std::int64_t tokens = stream_break_even(plan, machine);
  if (tokens == 0) return;
  for (plan::Placement& placement : plan.placements) {
    if (plan::stream_from(placement) > 0)
      placement.kwargs.try_emplace(ops::stream_from_kwarg().key, std::to_string(tokens));
  }
}

Estimate estimate(const plan::Plan& plan, const MachineFigures& machine, const Workload& load) {
  return {.devices = bytes_of(plan, machine, load),
          .decode = speed_of(plan, machine, load, Phase::Decode),
          .prefill = speed_of(plan, machine, load, Phase::Prefill),
          .hit_rate = hit_rate_of(plan, load)};
}

Estimate estimate_from_disk(const plan::Plan& plan,
                            const MachineFigures& machine,
                            const Workload& load) {
  Estimate found = estimate(plan, machine, load);
  found.devices = bytes_of(plan, machine, load, {.from_disk = true});
  const DiskReads reads(plan, found.devices.at(kCpu));
  reads.add_to(found.decode, plan, machine, decode_pass_of(load));
  reads.add_to(found.prefill, plan, machine, prefill_pass(load.prefill_tokens));
  return found;
}

}  // namespace graft::perf
