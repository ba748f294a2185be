// What the operators of mixtures of experts have in common, wherever they run.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops {

// The shared experts below a module under the name its family has for them; null: none.
Mlp* shared_experts_of(const BuildContext& context);

// Throws Error when so many experts cannot be chosen.
void check_router(const std::string& module, const RouterParams& params);

// One projection of all experts. Throws Error when some are missing or of another shape.
std::vector<Weight> load_experts(WeightProvider& weights,
                                 const std::string& module,
                                 std::string_view projection,
                                 const ExpertsParams& params);

}  // namespace graft::ops
