// The placement of a model without a rule file, as rules.

#pragma once

#include <string>

#include "graft/perf/auto_layout.h"
#include "graft/perf/estimate.h"

namespace graft::perf {

struct AutoRules {
  std::string text;     // a rule file
  std::string summary;  // "experts on the CPU, 24 of 128 per layer also on cuda:0"
};

// Of possible_layouts() one that fits, and of those the one that takes the least time for a request
// of kTypicalPrompt tokens with an answer of kTypicalAnswer. Without one that fits: the first.
AutoLayout choose_layout(const plan::Blueprint& blueprint,
                         const MachineFigures& machine,
                         const Workload& load);
inline constexpr std::int64_t kTypicalPrompt = 2048;
inline constexpr std::int64_t kTypicalAnswer = 256;

// Everything on one GPU or on all, when it fits. Else attention, shared experts, dense MLPs and the
// KV cache layer by layer on the GPUs, with the routed experts in host memory and copies of as many
// as fit on the GPUs; experts that host memory has no room for are on a GPU only, layer by layer.
// Where the GPUs are too small for that, choose_layout() compares. What is left is on the
// CPU, whether it fits there or not: check with estimate(). So is every model with a module that
// GPUs have no operator for. The sizes of the machine are the free memory. 0 in `load`: see
// possible_layouts().
AutoRules auto_rules(const plan::Blueprint& blueprint,
                     const MachineFigures& machine,
                     const Workload& load);

}  // namespace graft::perf
