#include "graft/cli/plan/plan_adapters.h"

#include <fmt/format.h>

#include "graft/base/text/units.h"
#include "graft/cli/counted.h"
#include "graft/cli/options/model_options.h"
#include "graft/models/lora/adapter.h"
#include "graft/models/lora/lora_layers.h"

namespace graft::cli {

std::vector<PlannedAdapter> plan_adapters(const std::vector<std::string>& lora,
                                          const PlanCase& to_plan,
                                          PlannedCase& planned) {
  std::vector<PlannedAdapter> adapters;
  for (const models::AdapterSource& source : parse_adapters(lora)) {
    const models::Adapter adapter(source, *to_plan.source, planned.model->blueprint());
    adapters.push_back(
        {.info = adapter.info(),
         .num_modules = adapter.modules().size(),
         .bytes = models::LoraLayers::bytes_of(adapter, planned.model->result().plan)});
    if (!planned.estimate) continue;
    for (const auto& [device, bytes] : adapters.back().bytes)
      planned.estimate->devices[device].weights += bytes;
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
