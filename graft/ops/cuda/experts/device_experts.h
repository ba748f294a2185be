// A GPU's part in experts whose weights are in host memory (graft/ops/experts/hybrid_experts.h):
// slots in GPU memory, and groups of experts that cross PCIe for a prefill pass, once, while the
// GPU computes with earlier groups.

#pragma once

#include <memory>

#include "graft/ops/registry.h"

namespace graft::ops::cuda {

// For a module whose weights context.host_op holds.
std::unique_ptr<Operator> make_hybrid_experts_cuda(const BuildContext& context);

}  // namespace graft::ops::cuda
