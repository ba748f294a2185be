#include "graft/models/operators.h"

#include "graft/base/check.h"
#include "graft/ops/device_bridge.h"
#include "graft/ops/registry.h"

namespace graft::models {
namespace {

using ops::Phase;
using plan::Placement;

struct Choice {
  const ops::OperatorInfo* op = nullptr;
  Device device;

  bool operator==(const Choice&) const = default;
};

// A phase without an operator of its own (`prefill_op: None`) runs the other's.
Choice choice(const Placement& placement, Phase phase) {
  const bool is_prefill = placement.generate_op == nullptr ||
                          (phase == Phase::Prefill && placement.prefill_op != nullptr);
  if (is_prefill) return {placement.prefill_op, placement.prefill_device};
  return {placement.generate_op, placement.generate_device};
}

}  // namespace

OperatorTree::OperatorTree(const plan::Plan& plan) {
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
  const Placement& placement = *found->second;
  const bool is_cache = placement.module->role == ops::Role::KvCache;
  return choice(placement, is_cache ? Phase::Decode : phase).device;
}

ops::Operator* OperatorTree::for_caller_on(Device here, std::string_view module, Phase phase) {
  ops::Operator* op = at(module).of(phase);
  if (op == nullptr) return nullptr;
  const Device there = device_of(module, phase);
  if (there == here) return op;
  auto crossing = ops::for_caller_on(here, *op, there, placements_.at(module)->module->role);
  GRAFT_CHECK(crossing != nullptr, module, " is on ", to_string(there), ", its user on ",
              to_string(here));
  crossings_.push_back(std::move(crossing));
  return crossings_.back().get();
}

PhaseOperators OperatorTree::build(const plan::ModuleSpec& module) {
  bool is_one = true;
  for (const plan::ModuleSpec& child : module.children) {
    const PhaseOperators built = build(child);
    is_one = is_one && built.prefill == built.generate;
  }
  const auto found = placements_.find(module.name);
  GRAFT_CHECK(found != placements_.end(), "the plan has no placement of ", module.name);
  const Placement& placement = *found->second;
  PhaseOperators built;
  if (choice(placement, Phase::Decode).op == nullptr) return built;

  built.generate = make(placement, Phase::Decode);
  is_one = is_one && choice(placement, Phase::Prefill) == choice(placement, Phase::Decode);
  // What prefill writes generate must read: there is one cache, where generate wants it.
  if (module.role == ops::Role::KvCache) is_one = true;
  built.prefill = is_one ? built.generate : make(placement, Phase::Prefill);
  by_name_[module.name] = built;
  return built;
}

ops::Operator* OperatorTree::make(const Placement& placement, Phase phase) {
  const plan::ModuleSpec& module = *placement.module;
  ops::BuildContext context;
  context.module = module.name;
  context.params = &module.params;
  context.device = choice(placement, phase).device;
  context.kwargs = &placement.kwargs;
  context.child = [&](std::string_view child) {
    return for_caller_on(context.device, str(module.name, '.', child), phase);
  };
  operators_.push_back(choice(placement, phase).op->make(context));
  return operators_.back().get();
}

}  // namespace graft::models
