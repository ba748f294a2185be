// KTransformers' name for stream_from() of a whole model (plan.h).

#pragma once

#include <string_view>

#include "graft/plan/checks/collector.h"
#include "graft/plan/plan.h"

namespace graft::plan {

// A kwarg of the model, in KTransformers' spelling.
inline constexpr std::string_view kPrefillThreshold = "per_layer_prefill_intput_threshold";

// Sets stream_from of the streamed experts whose rules have none. Call when all modules are placed.
void apply_prefill_threshold(Plan& plan, Collector& findings);

}  // namespace graft::plan
