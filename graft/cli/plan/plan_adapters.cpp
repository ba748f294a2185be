#include "graft/cli/plan/plan_adapters.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include <fmt/format.h>

#include "graft/base/text/units.h"
#include "graft/cli/counted.h"
#include "graft/cli/options/model_options.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/lora/lora_layers.h"
#include "graft/ops/pass.h"
#include "graft/perf/memory.h"
#include "graft/plan/plan.h"
#include "graft/tensor/device.h"

namespace graft::cli {
namespace {

// With an adapter of kv_b_proj, latent attention runs absorbed in prefill too, which needs more
// scratch memory. The most of any module, by GPU.
std::map<Device, std::uint64_t> absorbed_bytes(const models::Adapter& adapter,
                                               const plan::Plan& plan,
                                               const perf::Workload& load) {
  std::map<Device, double> usual;
  std::map<Device, double> absorbed;
  for (const models::AdapterModule& found : adapter.modules()) {
    if (found.module->last_name() != "kv_b_proj") continue;
    const std::string& name = found.module->name;
    const plan::Placement& parent = plan.at(name.substr(0, name.rfind('.')));
    const Device device = parent.running(ops::Phase::Prefill).device();
    if (device == kCpu) continue;
    usual[device] =
        std::max(usual[device], perf::attention_scratch_bytes(*parent.module, load, false));
    absorbed[device] =
        std::max(absorbed[device], perf::attention_scratch_bytes(*parent.module, load, true));
  }
  std::map<Device, std::uint64_t> bytes;
  for (const auto& [device, most] : absorbed)
    bytes[device] = static_cast<std::uint64_t>(std::max(most - usual[device], 0.0));
  return bytes;
}

}  // namespace

std::vector<PlannedAdapter> plan_adapters(const std::vector<std::string>& lora,
                                          const PlanCase& to_plan,
                                          PlannedCase& planned) {
  std::vector<PlannedAdapter> adapters;
  std::map<Device, std::uint64_t> absorbed;
  for (const models::AdapterSource& source : parse_adapters(lora)) {
    const models::Adapter adapter(source, *to_plan.source, planned.model->blueprint());
    adapters.push_back(
        {.info = adapter.info(),
         .num_modules = adapter.modules().size(),
         .bytes = models::LoraLayers::bytes_of(adapter, planned.model->result().plan)});
    if (!planned.estimate) continue;
    for (const auto& [device, bytes] : adapters.back().bytes)
      planned.estimate->devices[device].weights += bytes;
    for (const auto& [device, bytes] :
         absorbed_bytes(adapter, planned.model->result().plan, to_plan.load)) {
      std::uint64_t& most = absorbed[device];
      planned.estimate->devices[device].workspace += bytes - std::min(bytes, most);
      most = std::max(most, bytes);
    }
  }
  return adapters;
}

std::string adapters_text(const std::vector<PlannedAdapter>& adapters) {
  std::string text;
  for (const PlannedAdapter& adapter : adapters) {
    text += fmt::format("  adapter {}: {}, rank up to {}, {}", adapter.info.source.name,
                        adapter.info.source.path.string(), adapter.info.max_rank,
                        counted(static_cast<std::int64_t>(adapter.num_modules), "module"));
    for (const auto& [device, bytes] : adapter.bytes)
      text += fmt::format(", {} on {}", bytes_text(bytes), to_string(device));
    text += '\n';
  }
  return text.empty() ? text : "\n" + text;
}

Json adapters_json(const std::vector<PlannedAdapter>& adapters) {
  Json list = Json::array();
  for (const PlannedAdapter& adapter : adapters) {
    Json bytes = Json::object();
    for (const auto& [device, count] : adapter.bytes)
      bytes[to_string(device)] = count;
    list.push_back({{"name", adapter.info.source.name},
                    {"path", adapter.info.source.path.string()},
                    {"scale", adapter.info.source.scale},
                    {"max_rank", adapter.info.max_rank},
                    {"modules", adapter.num_modules},
                    {"bytes", bytes}});
  }
  return list;
}

}  // namespace graft::cli
