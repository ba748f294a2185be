// Experts whose weights stay in host memory and cross PCIe for long prefill passes: once per pass,
// in groups, while the GPU computes with earlier groups. Short passes run on the CPU, whose
// operator holds the weights.

#pragma once

#include <memory>

#include "graft/ops/registry.h"

namespace graft::ops::cuda {

// For the prefill operator of a module whose decode operator is on the CPU.
std::unique_ptr<Operator> make_streamed_experts(const BuildContext& context);

}  // namespace graft::ops::cuda
