// Module trees that several families share.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graft/models/config/hf_keys.h"
#include "graft/models/families/family.h"

namespace graft::models {

// norm → attention → add → norm → MLP → add, in every layer.
plan::Blueprint build_dense(Builder& build);

// The same with experts instead of the MLP in the layers that have them. `shared_experts` is called
// for those only; null: none.
plan::Blueprint build_sparse(
    Builder& build,
    const MoeNames& names,
    const std::function<plan::ModuleSpec(std::int64_t layer)>& attention,
    const std::function<std::vector<plan::ModuleSpec>(std::int64_t layer)>& shared_experts = {});

}  // namespace graft::models
