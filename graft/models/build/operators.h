// Builds all operators of a plan, children before their parents. A module has one operator for both
// phases, or one per phase where the plan differs between prefill and decode.

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

// Both point to the same object when the module and its children are the same in both phases.
struct PhaseOperators {
  ops::Operator* prefill = nullptr;
  ops::Operator* decode = nullptr;

  ops::Operator* of(ops::Phase phase) const {
    return phase == ops::Phase::Prefill ? prefill : decode;
  }
};

class OperatorTree {
 public:
  // Operators may keep references into the plan and its blueprint, which must outlive the tree.
  explicit OperatorTree(const plan::Plan& plan);

  // Null in both phases for a module without an operator (the model, a layer).
  PhaseOperators at(std::string_view module) const;
  // The device of a module's operator in a phase.
  Device device_of(std::string_view module, ops::Phase phase) const;
  // The operator of a module, wrapped in a device bridge when it is not on `here`; null when the
  // module has none.
  ops::Operator* for_caller_on(Device here, std::string_view module, ops::Phase phase);
  // The operators by which the callers of a module see it, bridges included, with the callers'
  // devices. Empty: its parent has its weights.
  struct Seen {
    ops::Operator* op = nullptr;
    Device caller;
  };
  const std::vector<Seen>& callers_of(const std::string& module) const;
  // Every operator once, children before their parents.
  const std::vector<std::unique_ptr<ops::Operator>>& all() const { return operators_; }

 private:
  PhaseOperators build(const plan::ModuleSpec& module);
  ops::Operator* make(const plan::Placement& placement, ops::Phase phase, ops::Operator* host_op);
  // The operator on the CPU that holds the weights of the GPU's; null: there is none.
  ops::Operator* make_host(const plan::Placement& placement);
  // Whether fused primitives of `device` may read the weights of the module's operator.
  bool is_native(std::string_view module, Device device, ops::Phase phase) const;

  const plan::Plan& plan_;
  std::unordered_map<std::string_view, const plan::Placement*> placements_;
  std::unordered_map<std::string, PhaseOperators> by_name_;
  std::vector<std::unique_ptr<ops::Operator>> operators_;
  std::unordered_map<std::string, std::vector<Seen>> seen_;
  std::vector<std::unique_ptr<ops::Operator>> bridges_;  // to operators on other devices
};

}  // namespace graft::models
