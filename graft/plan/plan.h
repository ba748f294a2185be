// What runs where: every module of a blueprint with its operator and devices, as rules decided.

#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/finding.h"
#include "graft/plan/rules.h"
#include "graft/tensor/device.h"

namespace graft::plan {

struct Placement {
  const ModuleSpec* module = nullptr;
  // Null for what only holds other modules (model, layer) and when planning for another machine.
  // `prefill_op: None` has made the prefill operator and device those of generate.
  const ops::OperatorInfo* generate_op = nullptr;
  const ops::OperatorInfo* prefill_op = nullptr;
  Device generate_device;
  Device prefill_device;
  Device out_device;           // where its result goes; generate_device unless a rule says so
  ops::Kwargs kwargs;          // what is left for the operator
  const Rule* rule = nullptr;  // null: no rule matched, or a rule above is not recursive
  std::size_t weight_bytes = 0;
};

// Points into the blueprint, the rule file and the registry it was made from.
struct Plan {
  const Blueprint* blueprint = nullptr;
  const ops::Registry* registry = nullptr;
  std::vector<Placement> placements;            // in the order of Blueprint::visit
  std::map<std::int64_t, Device> transfer_map;  // layer -> where the hidden states go before it

  // Aborts when there is no such module.
  const Placement& at(std::string_view module) const;
};

// The devices rules may name.
struct Machine {
  int num_gpus = 0;
  // A plan for another machine, which may have operators that this build lacks: those stay null.
  bool plan_only = false;
};

struct PlanResult {
  Plan plan;
  std::vector<Finding> findings;  // errors and warnings, in order of line

  bool ok() const { return !has_errors(findings); }
};

// Where modules go that no rule places: cuda:0, as KTransformers has it, on a machine with GPUs and
// with operators for them (or when only planning), else the CPU.
Device default_device(const ops::Registry& registry, const Machine& machine);

// Resolves rules against the blueprint. The plugins of the rule file are in the registry already
// (plugins.h). Never throws for what is wrong in rules: everything is
// collected in findings, and the plan is usable only when ok().
//
// The first rule that matches a module decides. Modules below one whose rule is not recursive get
// no rule: they take the default operators on its devices. A KV cache that no rule matches goes
// where its attention is. Everything else without a rule takes its role's default operator on the
// default device; nothing is inherited.
//
// Of the devices of a phase the most exact wins: `generate_device` before `device` before the
// device of the operator that is named before the default (for prefill: that of generate).
PlanResult make_plan(const Blueprint& blueprint,
                     const RuleFile& rules,
                     const ops::Registry& registry,
                     const Machine& machine);

}  // namespace graft::plan
