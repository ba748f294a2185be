// The type of all KV caches of a plan, chosen without a rule.

#pragma once

#include <string>

#include "graft/plan/plan.h"

namespace graft::plan {

// Replaces `dtype` of every KV cache. Empty or "auto" keeps what the rules set. Throws Error when
// the operator of a cache has no such type, or the head size is not a multiple of its blocks.
void set_cache_type(Plan& plan, const std::string& dtype);

}  // namespace graft::plan
