// Operators of graft as plugins call them: the children of a module, and operators they wrap.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/plugin.h"

namespace graft::ops {

// The interface of `op`'s role that plugins see. load() and unload() do nothing: graft calls those
// of `op`, which must outlive the result.
std::unique_ptr<plugin::Operator> for_plugin(Operator& op);
// The same, owning `op`; load() and unload() reach it.
std::unique_ptr<plugin::Operator> for_plugin(std::unique_ptr<Operator> op);

}  // namespace graft::ops
