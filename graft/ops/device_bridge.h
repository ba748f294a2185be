// An operator for callers on another device: inputs are copied to where it runs, results to where
// the caller is. Modules use a bridge like any other child.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/role.h"

namespace graft::ops {

// `op`, which runs on `there`, for callers on `here`. Null for roles that have no bridge: a KV
// cache is on the device of its attention.
std::unique_ptr<Operator> for_caller_on(Device here, Operator& op, Device there, Role role);

}  // namespace graft::ops
