#include "graft/kernels/cpu/isa/isa_level.h"

#include <string>

#include "graft/base/error.h"

namespace graft::kernels::cpu {

std::string_view missing_feature(IsaLevel level, const CpuFeatures& features) {
  for (const Requirement& needs : isa_requirements()) {
    if (needs.level <= level && !(features.*needs.feature.is_present)) return needs.feature.name;
  }
  return {};
}

IsaLevel choose_level(std::string_view name, const CpuFeatures& features) {
  IsaLevel best = IsaLevel::Scalar;
  std::string names;
  for (const LevelName& row : isa_levels()) {
    const std::string_view missing = missing_feature(row.level, features);
    if (row.name == name) {
      if (!missing.empty()) fail("GRAFT_CPU_ISA=", name, ": this CPU lacks ", missing);
      return row.level;
    }
    if (missing.empty()) best = row.level;
    names += str(names.empty() ? "" : ", ", row.name);
  }
  if (!name.empty()) fail("GRAFT_CPU_ISA=", name, ": unknown level (", names, ")");
  return best;
}

}  // namespace graft::kernels::cpu
