#include "graft/plan/vision_rules.h"

#include <string>

#include "graft/ops/role.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {
namespace {

bool names_vision(const Rule& rule) {
  if (rule.role) return ops::is_vision(*rule.role);
  const std::string name = rule.name_regex.value_or(rule.class_name);
  return name.find("ision") != std::string::npos || name.find("rojector") != std::string::npos;
}

}  // namespace

bool places_vision(const ResolvedRule& rule,
                   const ModuleSpec& module,
                   const PlannedOperators& operators,
                   Device fallback) {
  if (names_vision(*rule.rule)) return true;
  const bool is_default = rule.decode.op.is_default() && rule.prefill.op.is_default();
  const bool fits_role = !rule.role || *rule.role == module.role;
  const Device device = rule.decode.device.value_or(fallback);
  return is_default && fits_role && operators.default_for(module, device) != nullptr;
}

Device vision_device(const ModuleSpec& module, const PlannedOperators& operators, Device wanted) {
  return operators.default_for(module, wanted) == nullptr ? kCpu : wanted;
}

}  // namespace graft::plan
