// An operator as seen from another device: what it needs is brought to where it runs, what it makes
// to where the caller is. Operators that hold others know nothing of it.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/role.h"

namespace graft::ops {

// `op`, which runs on `there`, for callers on `here`. Null for what cannot be seen from elsewhere:
// a KV cache stays beside its attention.
std::unique_ptr<Operator> for_caller_on(Device here, Operator& op, Device there, Role role);

}  // namespace graft::ops
