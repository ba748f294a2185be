// graft bench --profile: time per module, summed over the layers.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/ops/profiler.h"

namespace graft::cli {

using ModuleProfile = std::map<std::string, ops::Profiler::Entry>;

struct ModuleTime {
  std::string module;  // "model.layers.*.mlp"
  std::int64_t calls = 0;
  double seconds = 0;  // exclusive of child modules
};

// The time between two snapshots of a profile, descending.
std::vector<ModuleTime> module_times(const ModuleProfile& before, const ModuleProfile& after);

std::string module_table(const std::vector<ModuleTime>& times);
Json module_json(const std::vector<ModuleTime>& times);

}  // namespace graft::cli
