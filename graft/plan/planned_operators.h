// Looks up operators for a plan: those of the registry, and on GPUs that are not in this machine
// those that libgraft_cuda.so has (ops/devices/cuda_operators.h). The latter can be planned but not
// run.

#pragma once

#include <string_view>

#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/plan.h"

namespace graft::plan {

class PlannedOperators {
 public:
  // Both outlive the object.
  PlannedOperators(const ops::Registry& registry, const Machine& machine)
      : registry_(registry), machine_(machine) {}

  const ops::OperatorInfo* find(std::string_view name) const;  // null when not found
  // The default operator of the module's role on the device; null when none supports the module.
  const ops::OperatorInfo* default_for(const ModuleSpec& module, Device device) const;

  const ops::Registry& registry() const { return registry_; }

 private:
  const ops::Registry& registry_;
  const Machine& machine_;
};

}  // namespace graft::plan
