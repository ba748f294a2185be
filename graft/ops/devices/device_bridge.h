// Calls an operator on another device: copies inputs to the operator's device and results back.
// Modules use a bridge like any other child.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/role.h"

namespace graft::ops {

// Wraps `op`, which runs on `there`, for callers on `here`. Null for roles without a bridge, such
// as the KV cache, which is always on the device of its attention.
std::unique_ptr<Operator> for_caller_on(Device here, Operator& op, Device there, Role role);

}  // namespace graft::ops
