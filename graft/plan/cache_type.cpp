#include "graft/plan/cache_type.h"

#include <string>

#include "graft/base/error.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/kwargs.h"

namespace graft::plan {

void set_cache_type(Plan& plan, const std::string& dtype) {
  if (dtype.empty() || dtype == "auto") return;
  const std::string& key = ops::cache_type_kwarg().key;
  for (Placement& placement : plan.placements) {
    if (placement.module->role != ops::Role::KvCache) continue;
    const ops::OperatorInfo* op = placement.decode.op;
    const std::string device = to_string(placement.decode.device());
    const ops::Kwarg* kwarg = op == nullptr ? nullptr : op->find_kwarg(key);
    if (kwarg == nullptr) {
      fail("KV cache type ", dtype, ": the cache of ", placement.module->name, " on ", device,
           " has no choice of types");
    }
    const std::string problem = ops::value_problem(*kwarg, dtype, placement.module->params);
    if (!problem.empty()) {
      fail("KV cache type ", dtype, " on ", device, ": ", problem, " (at ", placement.module->name,
           ")");
    }
    placement.kwargs[key] = dtype;
  }
}

}  // namespace graft::plan
