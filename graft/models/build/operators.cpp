#include "graft/models/build/operators.h"

#include "graft/base/check.h"
#include "graft/ops/devices/device_bridge.h"
#include "graft/ops/registry.h"

namespace graft::models {

using ops::Phase;
using plan::Placement;

OperatorTree::OperatorTree(const plan::Plan& plan) : plan_(plan) {
  for (const Placement& placement : plan.placements) {
    placements_[placement.module->name] = &placement;
  }
  build(plan.blueprint->root);
}

PhaseOperators OperatorTree::at(std::string_view module) const {
  const auto found = by_name_.find(std::string(module));
  return found == by_name_.end() ? PhaseOperators{} : found->second;
}

Device OperatorTree::device_of(std::string_view module, Phase phase) const {
  const auto found = placements_.find(module);
  GRAFT_CHECK(found != placements_.end(), "the plan has no placement of ", module);
  return found->second->running(phase).device();
}

ops::Operator* OperatorTree::for_caller_on(Device here, std::string_view module, Phase phase) {
  ops::Operator* op = at(module).of(phase);
  if (op == nullptr) return nullptr;
  const Device there = device_of(module, phase);
  std::vector<Seen>& seen = seen_[std::string(module)];
  if (there == here) {
    seen.push_back({.op = op, .caller = here});
    return op;
  }
  auto bridge = ops::for_caller_on(here, *op, there, placements_.at(module)->module->role);
  GRAFT_CHECK(bridge != nullptr, module, " is on ", to_string(there), ", its caller on ",
              to_string(here));
  bridges_.push_back(std::move(bridge));
  seen.push_back({.op = bridges_.back().get(), .caller = here});
  return bridges_.back().get();
}

const std::vector<OperatorTree::Seen>& OperatorTree::callers_of(const std::string& module) const {
  static const std::vector<Seen> none;
  const auto found = seen_.find(module);
  return found == seen_.end() ? none : found->second;
}

bool OperatorTree::is_native(std::string_view module, Device device, Phase phase) const {
  const auto found = placements_.find(module);
  return found != placements_.end() && found->second->is_native_on(device, phase);
}

PhaseOperators OperatorTree::build(const plan::ModuleSpec& module) {
  const auto found = placements_.find(module.name);
  GRAFT_CHECK(found != placements_.end(), "the plan has no placement of ", module.name);
  const Placement& placement = *found->second;
  bool is_one = true;
  for (const plan::ModuleSpec& child : module.children) {
    if (placement.absorbs(child)) continue;
    const PhaseOperators built = build(child);
    is_one = is_one && built.prefill == built.decode;
  }
  PhaseOperators built;
  if (placement.decode.op == nullptr) return built;

  ops::Operator* host = make_host(placement);
  const bool decodes_on_host = host != nullptr && placement.decode.device() == kCpu;
  built.decode = decodes_on_host ? host : make(placement, Phase::Decode, host);
  const plan::PhasePlacement& prefill = placement.running(Phase::Prefill);
  is_one =
      is_one && prefill.op == placement.decode.op && prefill.device() == placement.decode.device();
  built.prefill = is_one ? built.decode : make(placement, Phase::Prefill, host);
  by_name_[module.name] = built;
  return built;
}

ops::Operator* OperatorTree::make_host(const Placement& placement) {
  if (placement.host_op == nullptr) return nullptr;
  ops::BuildContext context;
  context.module = placement.module->name;
  context.params = &placement.module->params;
  context.device = kCpu;
  context.kwargs = &placement.kwargs;
  context.primitives = &plan_.registry->primitives(kCpu.type);
  operators_.push_back(placement.host_op->make(context));
  return operators_.back().get();
}

ops::Operator* OperatorTree::make(const Placement& placement, Phase phase, ops::Operator* host_op) {
  const plan::ModuleSpec& module = *placement.module;
  ops::BuildContext context;
  context.module = module.name;
  context.params = &module.params;
  context.device = placement.running(phase).device();
  context.kwargs = &placement.kwargs;
  context.host_op = host_op;
  context.primitives = &plan_.registry->primitives(context.device.type);
  context.child = [&](std::string_view child) {
    const std::string name = str(module.name, '.', child);
    return ops::Child<ops::Operator>{.op = for_caller_on(context.device, name, phase),
                                     .is_native = is_native(name, context.device, phase)};
  };
  operators_.push_back(placement.running(phase).op->make(context));
  return operators_.back().get();
}

}  // namespace graft::models
