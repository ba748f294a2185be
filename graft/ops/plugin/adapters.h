// Wraps operators of plugins (graft/plugin.h) as ops::Operator.

#pragma once

#include "graft/ops/registry.h"
#include "graft/plugin.h"

namespace graft::ops {

// The registration of a plugin as a CPU operator. It is not native: fused primitives do not read
// its weights. The plugin can wrap the operators that `registry` holds now
// (plugin::BuildContext::make); the registry must outlive the operators that the result makes.
OperatorInfo plugin_operator(plugin::Registration registration, const Registry& registry);

}  // namespace graft::ops
