#include "graft/plan/planned_operators.h"

#include "graft/ops/devices/cuda_operators.h"

namespace graft::plan {

const ops::OperatorInfo* PlannedOperators::find(std::string_view name) const {
  if (const ops::OperatorInfo* found = registry_.find(name)) return found;
  if (!machine_.plan_only && machine_.num_gpus > 0) return nullptr;
  for (const ops::OperatorInfo& info : ops::cuda_operators()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

const ops::OperatorInfo* PlannedOperators::default_for(const ModuleSpec& module,
                                                       Device device) const {
  const auto* found = registry_.default_for(module.role, device.type, module.params);
  const bool may_lack = machine_.plan_only || !machine_.has(device);
  if (found != nullptr || device.type != DeviceType::Cuda || !may_lack) return found;
  for (const ops::OperatorInfo& info : ops::cuda_operators()) {
    if (info.role == module.role && info.supports(module.params)) return &info;
  }
  return nullptr;
}

}  // namespace graft::plan
