// Loads the plugins of a command line and of a rule file into the registry, before the rules are
// resolved against it.

#pragma once

#include <filesystem>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/checks/finding.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {

// Loads `libraries` first, with paths as the user gave them; a failure throws Error. Then those of
// the rule file, relative to its folder; a failure is a finding with its line. A library named
// twice is loaded once.
void load_plugins(const std::vector<std::filesystem::path>& libraries,
                  const RuleFile& rules,
                  ops::Registry& registry,
                  std::vector<Finding>& findings);

}  // namespace graft::plan
