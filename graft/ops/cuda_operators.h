// The operators of libgraft_cuda.so without their code: names, roles, kwargs and the modules they
// support. Compiled in, as cuda_fusions() is, so that plans for GPUs need no libgraft_cuda.so; its
// registration (cuda/register.cpp) adds the factories to this list.

#pragma once

#include <span>

#include "graft/ops/registry.h"

namespace graft::ops {

// In order of registration: the first one of a role that supports a module is its default. `make`
// and `accepts` are empty: the supported weight types are those of the kernels.
std::span<const OperatorInfo> cuda_operators();

}  // namespace graft::ops
