// The adapters of graft plan --lora: what they change, and their memory.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/cli/plan/plan_fit.h"
#include "graft/llm.h"
#include "graft/tensor/device.h"

namespace graft::cli {

struct PlannedAdapter {
  AdapterInfo info;
  std::size_t num_modules = 0;
  std::map<Device, std::uint64_t> bytes;
};

// Reads the adapters (NAME=PATH[:SCALE]) and adds their memory to the estimate. Throws Error for
// those that do not fit the model.
std::vector<PlannedAdapter> plan_adapters(const std::vector<std::string>& lora,
                                          const PlanCase& to_plan,
                                          PlannedCase& planned);

std::string adapters_text(const std::vector<PlannedAdapter>& adapters);
Json adapters_json(const std::vector<PlannedAdapter>& adapters);

}  // namespace graft::cli
