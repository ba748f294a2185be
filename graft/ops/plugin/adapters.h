// Operators of plugins (graft/plugin.h) as operators of this folder.

#pragma once

#include "graft/ops/registry.h"
#include "graft/plugin.h"

namespace graft::ops {

// The registration of a plugin as an operator of the CPU. It is not native: fused primitives do not
// see its weights. What `registry` holds now can be wrapped by the plugin (BuildContext::make);
// those operators must outlive what is made.
OperatorInfo plugin_operator(plugin::Registration registration, const Registry& registry);

}  // namespace graft::ops
