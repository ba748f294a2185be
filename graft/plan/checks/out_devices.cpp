#include "graft/plan/checks/out_devices.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace graft::plan {
namespace {

using ops::Phase;
using ops::Role;
using ByName = std::map<std::string_view, const Placement*>;

std::string_view parent_name(std::string_view module) {
  const auto dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
}

// The device that the result of a module is copied to; null: not known.
std::optional<Device> consumer(const Plan& plan,
                               const ByName& by_name,
                               const ModuleSpec& module,
                               Phase phase) {
  const auto parent = by_name.find(parent_name(module.name));
  if (parent == by_name.end() || parent->second->module == &module) return std::nullopt;
  const Role role = parent->second->module->role;
  if (!is_structural(role)) return parent->second->running(phase).device();
  // The hidden states are on the device of the layer; the embedding makes those of the first one.
  const std::int64_t layer = module.role == Role::Embedding ? 0 : module.layer;
  const std::string norm = str("model.layers.", layer, ".input_layernorm");
  if (layer < 0 || by_name.find(norm) == by_name.end()) return std::nullopt;
  return layer_device(plan, layer, phase);
}

}  // namespace

void check_out_devices(const Plan& plan, Collector& findings) {
  ByName by_name;
  for (const Placement& placement : plan.placements)
    by_name.emplace(placement.module->name, &placement);
  for (const Placement& placement : plan.placements) {
    const ModuleSpec& module = *placement.module;
    if (placement.rule == nullptr || is_structural(module.role)) continue;
    const auto named = placement.rule->kwargs.find("out_device");
    if (named == placement.rule->kwargs.end()) continue;
    // A rule with an error did not place the module.
    if (device_from_name(named->second) != placement.out_device) continue;
    const auto used_on = consumer(plan, by_name, module, Phase::Decode);
    const std::array devices = {used_on.value_or(placement.running(Phase::Decode).device()),
                                consumer(plan, by_name, module, Phase::Prefill)
                                    .value_or(placement.running(Phase::Prefill).device())};
    if (std::find(devices.begin(), devices.end(), placement.out_device) != devices.end()) continue;
    findings.warning(placement.rule->line_of("out_device"),
                     str("out_device: ", to_string(placement.out_device),
                         " has no effect: a result is copied to the device of the module that "
                         "uses it",
                         used_on ? str(", here ", to_string(*used_on)) : std::string()),
                     &module);
  }
}

}  // namespace graft::plan
