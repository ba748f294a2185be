// Wraps ops::Operator for plugins: the children of a module, and the operators a plugin wraps.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/plugin.h"

namespace graft::ops {

// The plugin interface of `op`'s role. load() and unload() do nothing, because graft loads `op`
// itself; `op` must outlive the result.
std::unique_ptr<plugin::Operator> for_plugin(Operator& op);
// Owns `op`: load() and unload() are forwarded to it.
std::unique_ptr<plugin::Operator> for_plugin(std::unique_ptr<Operator> op);

}  // namespace graft::ops
