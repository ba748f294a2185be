// The plugins that a command and its rule file name, brought into the registry before rules are
// resolved against it.

#pragma once

#include <filesystem>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/finding.h"
#include "graft/plan/rules.h"

namespace graft::plan {

// `libraries` first, paths as the user gave them: what is wrong with one is thrown as an Error.
// Then those of the rule file, relative to its folder: what is wrong is a finding with its line. A
// library that is named twice is loaded once.
void load_plugins(const std::vector<std::filesystem::path>& libraries,
                  const RuleFile& rules,
                  ops::Registry& registry,
                  std::vector<Finding>& findings);

}  // namespace graft::plan
