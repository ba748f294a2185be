#include "graft/plan/estimate.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include <fmt/format.h>

#include "graft/base/check.h"

namespace graft::plan {
namespace {

using ops::Role;

// A hop between devices costs this beside its bytes: a launch, a synchronisation.
constexpr double kHopSeconds = 20e-6;
constexpr double kF32Bytes = 4;

enum class Stage : std::uint8_t { Generate, Prefill };

// Bytes read and arithmetic done by one module in one pass over `rows` tokens.
struct Work {
  double bytes = 0;
  double flops = 0;
  DType dtype = DType::BF16;  // of most of the bytes
};

// Share of a layer's experts that `rows` tokens touch, when each draws its own at random.
double touched_share(const ops::ExpertsParams& experts, double rows) {
  const double share = static_cast<double>(experts.top_k) /
                       static_cast<double>(std::max<std::int64_t>(experts.num_experts, 1));
  return 1.0 - std::pow(1.0 - share, rows);
}

Work weight_work(const ModuleSpec& module, double rows) {
  Work work;
  std::size_t largest = 0;
  for (const WeightSpec& weight : module.weights) {
    const auto bytes = static_cast<double>(weight.bytes());
    const auto elems = static_cast<double>(weight.num_elems());
    if (module.role == Role::Embedding) {
      // A lookup: one row per token.
      work.bytes += rows * bytes / static_cast<double>(std::max<std::int64_t>(weight.shape[0], 1));
    } else if (const auto* experts = std::get_if<ops::ExpertsParams>(&module.params)) {
      work.bytes += bytes * touched_share(*experts, rows);
      work.flops += 2 * elems * rows * static_cast<double>(experts->top_k) /
                    static_cast<double>(experts->num_experts);
    } else {
      work.bytes += bytes;
      work.flops += 2 * elems * rows;
    }
    if (weight.bytes() > largest) {
      largest = weight.bytes();
      work.dtype = weight.dtype;
    }
  }
  return work;
}

// Scores and sums over a context of `context` cached tokens.
double attention_flops(const ModuleSpec& module, double rows, double context) {
  if (const auto* gqa = std::get_if<ops::AttentionParams>(&module.params)) {
    const double seen = gqa->sliding_window > 0
                            ? std::min(context, static_cast<double>(gqa->sliding_window))
                            : context;
    return 4 * rows * seen * static_cast<double>(gqa->num_heads * gqa->head_dim);
  }
  if (const auto* mla = std::get_if<ops::MlaParams>(&module.params)) {
    return 2 * rows * context *
           static_cast<double>(mla->num_heads * (2 * mla->kv_lora_rank + mla->qk_rope_head_dim));
  }
  return 0;
}

double kv_bytes_per_token(const Placement& placement) {
  const auto* cache = std::get_if<ops::KvCacheParams>(&placement.module->params);
  if (cache == nullptr) return 0;
  // f16 unless a rule says f32, as the operator does.
  const auto dtype = placement.kwargs.find("dtype");
  const double elem_bytes = dtype != placement.kwargs.end() && dtype->second == "f32" ? 4 : 2;
  return elem_bytes * static_cast<double>(cache->key_size + cache->value_size);
}

class Clock {
 public:
  explicit Clock(const MachineFigures& machine) : machine_(machine) {}

  // The slower of reading and computing counts; both run at once.
  void add(Device device, const Work& work) {
    if (device.type == DeviceType::Cuda) {
      const GpuFigures& gpu = gpu_at(device);
      slower(work.bytes / gpu.read_bytes_per_s, to_string(device) + " memory",
             work.flops / gpu.flops, to_string(device) + " arithmetic");
      return;
    }
    const auto rate = machine_.cpu_rates.find(work.dtype);
    if (rate == machine_.cpu_rates.end()) {
      slower(work.bytes / machine_.cpu.read_bytes_per_s, "cpu memory",
             work.flops / machine_.cpu.flops, "cpu arithmetic");
    } else {
      slower(work.bytes / rate->second.read_bytes_per_s,
             "cpu weights of " + std::string(name(work.dtype)), work.flops / rate->second.flops,
             "cpu arithmetic");
    }
  }
  // Plain reading and arithmetic, no weights.
  void add_context(Device device, double bytes, double flops) {
    if (device.type == DeviceType::Cuda) {
      add(device, {.bytes = bytes, .flops = flops});
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

// What one pass does, in tokens.
struct PassSize {
  Stage stage = Stage::Generate;
  double rows = 0;
  double context = 0;  // that a row sees
};

Device device_of(const Placement& placement, Stage stage) {
  return stage == Stage::Prefill ? placement.prefill_device : placement.generate_device;
}

void add_module(Clock& clock, const Placement& placement, const PassSize& pass) {
  const ModuleSpec& module = *placement.module;
  const Device device = device_of(placement, pass.stage);
  const bool prefill = pass.stage == Stage::Prefill;
  // Of a prompt only the last token needs logits.
  const bool is_head = module.role == Role::Linear && module.last_name() == "lm_head";
  clock.add(device, weight_work(module, prefill && is_head ? 1 : pass.rows));
  if (!module.weights.empty() || module.role == Role::Attention) clock.call(device);
  if (module.role == Role::Attention)
    clock.add_context(device, 0, attention_flops(module, pass.rows, pass.context));
  if (module.role == Role::KvCache) {
    const double bytes = kv_bytes_per_token(placement) * pass.context;
    clock.add_context(device, bytes * (prefill ? 1 : pass.rows), 0);
  }
}

Speed speed_of(const Plan& plan, const MachineFigures& machine, const Load& load, Stage stage) {
  const bool prefill = stage == Stage::Prefill;
  const auto rows = static_cast<double>(prefill ? load.prefill_tokens : load.parallel);
  // A prefill token sees half of the prompt on average.
  const PassSize pass = {.stage = stage,
                         .rows = rows,
                         .context = prefill ? rows / 2 : static_cast<double>(load.context)};
  Clock clock(machine);
  Device hidden_at;
  double hidden_bytes = 0;
  bool first = true;
  for (const Placement& placement : plan.placements) {
    const ModuleSpec& module = *placement.module;
    add_module(clock, placement, pass);
    if (const auto* norm = std::get_if<ops::NormParams>(&module.params))
      hidden_bytes = std::max(hidden_bytes, kF32Bytes * static_cast<double>(norm->size));
    if (module.weights.empty()) continue;
    const Device device = device_of(placement, stage);
    if (!first) clock.hop(hidden_at, device, rows * hidden_bytes);
    hidden_at = device;
    first = false;
  }
  return clock.speed(rows);
}

// Activations of one prefill chunk: the widest rows an operator of each kind holds at once.
double workspace_row_bytes(const ModuleSpec& module) {
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

std::map<Device, MemoryUse> bytes_of(const Plan& plan,
                                     const MachineFigures& machine,
                                     const Load& load) {
  std::map<Device, MemoryUse> devices;
  std::map<Device, double> widest;
  devices[kCpu].capacity = machine.cpu.dram_bytes;
  for (std::size_t i = 0; i < machine.gpus.size(); ++i)
    devices[{DeviceType::Cuda, static_cast<std::int32_t>(i)}].capacity = machine.gpus[i].vram_bytes;
  const double cached_tokens =
      static_cast<double>(load.context) * static_cast<double>(load.parallel);
  for (const Placement& placement : plan.placements) {
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

Estimate estimate(const Plan& plan, const MachineFigures& machine, const Load& load) {
  return {.devices = bytes_of(plan, machine, load),
          .generate = speed_of(plan, machine, load, Stage::Generate),
          .prefill = speed_of(plan, machine, load, Stage::Prefill)};
}

}  // namespace graft::plan
