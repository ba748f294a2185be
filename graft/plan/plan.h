// What runs where: every module of a blueprint with its operator and devices, as rules decided.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/finding.h"
#include "graft/plan/rules.h"
#include "graft/tensor/device.h"

namespace graft::plan {

struct Placement {
  const ModuleSpec* module = nullptr;
  const ops::OperatorInfo* generate_op = nullptr;  // null: the module's `…_op: None`
  const ops::OperatorInfo* prefill_op = nullptr;
  Device generate_device;
  Device prefill_device;
  Device out_device;
  ops::Kwargs kwargs;          // what is left for the operator
  const Rule* rule = nullptr;  // null: the default
  std::size_t weight_bytes = 0;
};

struct Plan {
  const Blueprint* blueprint = nullptr;
  std::vector<Placement> placements;            // in the order of Blueprint::visit
  std::map<std::int64_t, Device> transfer_map;  // layer -> where the hidden states go before it
  const Placement& at(std::string_view module) const;
};

// The devices rules may name.
struct Machine {
  int num_gpus = 0;
};

struct PlanResult {
  Plan plan;
  std::vector<Finding> findings;  // errors and warnings, in order of line

  bool ok() const;
};

// Resolves rules against the blueprint. Never throws for what is wrong in rules: everything is
// collected in findings, and the plan is usable only when ok().
PlanResult make_plan(const Blueprint& blueprint,
                     const RuleFile& rules,
                     const ops::Registry& registry,
                     const Machine& machine);

}  // namespace graft::plan
