// Prints a plan as a table or as JSON, for `graft plan`, `graft rules check` and the web page.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/plan/plan.h"

namespace graft::plan {

struct DeviceBytes {
  Device device;
  std::size_t bytes = 0;
};

// Weight bytes per device, the CPU first. A module's weights count on its decode device.
std::vector<DeviceBytes> weight_bytes_by_device(const Plan& plan);

std::uint64_t weight_bytes(const Plan& plan);  // of all devices
std::uint64_t weight_bytes_on(const Plan& plan, Device device);

// One row per module that computes or that a rule placed. Consecutive layers with equal placements
// are folded into one block, whose weights are summed:
//   model.layers.3-60.mlp.experts  cpu.experts  cpu → cuda:0  605.3 GiB  line 4
// Below the table: the transfer map, the lost fusions (lost_fusions.h) and the weights per device.
std::string plan_text(const Plan& plan);

// Everything, unfolded: {model, family, placements: [...], transfer_map, lost_fusions: [...],
// weight_bytes}.
Json plan_json(const Plan& plan);
Json findings_json(const std::vector<Finding>& findings);

}  // namespace graft::plan
