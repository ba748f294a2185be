// All operators of a model, built as the plan says: children before their parents, one for each
// phase where prefill and decode differ.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graft/ops/operator.h"
#include "graft/ops/pass.h"
#include "graft/plan/plan.h"

namespace graft::models {

// The same object twice where nothing below the module differs between the phases.
struct PhaseOperators {
  ops::Operator* prefill = nullptr;
  ops::Operator* decode = nullptr;

  ops::Operator* of(ops::Phase phase) const {
    return phase == ops::Phase::Prefill ? prefill : decode;
  }
};

class OperatorTree {
 public:
  // Operators may keep references into the plan and its blueprint.
  explicit OperatorTree(const plan::Plan& plan);

  // Null in both phases for a module that needs no operator (the model, a layer).
  PhaseOperators at(std::string_view module) const;
  // Where a module's operator runs in a phase.
  Device device_of(std::string_view module, ops::Phase phase) const;
  // Its operator for a caller on `here`, null when it has none.
  ops::Operator* for_caller_on(Device here, std::string_view module, ops::Phase phase);
  // Every object once, children before their parents.
  const std::vector<std::unique_ptr<ops::Operator>>& all() const { return operators_; }

 private:
  PhaseOperators build(const plan::ModuleSpec& module);
  ops::Operator* make(const plan::Placement& placement, ops::Phase phase);
  // Whether fused primitives of `device` may read into the module's operator.
  bool is_native(std::string_view module, Device device, ops::Phase phase) const;

  const plan::Plan& plan_;
  std::unordered_map<std::string_view, const plan::Placement*> placements_;
  std::unordered_map<std::string, PhaseOperators> by_name_;
  std::vector<std::unique_ptr<ops::Operator>> operators_;
  std::vector<std::unique_ptr<ops::Operator>> bridges_;  // to operators on other devices
};

}  // namespace graft::models
