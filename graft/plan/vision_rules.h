// Which rules place the vision tower and the projector. Their operators are missing on some devices
// and for some towers, so rules for all modules move them only where the device has one.

#pragma once

#include "graft/plan/blueprint.h"
#include "graft/plan/planned_operators.h"
#include "graft/plan/resolve.h"
#include "graft/tensor/device.h"

namespace graft::plan {

// Whether a rule that matches a vision module places it: its class, role or name says so, or its
// device (default: `fallback`) has an operator. Of a rule that names vision modules a device
// without an operator is an error.
bool places_vision(const ResolvedRule& rule,
                   const ModuleSpec& module,
                   const PlannedOperators& operators,
                   Device fallback);

// Where a vision module without a rule runs: on `wanted`, or on the CPU.
Device vision_device(const ModuleSpec& module, const PlannedOperators& operators, Device wanted);

}  // namespace graft::plan
