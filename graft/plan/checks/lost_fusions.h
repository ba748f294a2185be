// The fusions that a plan costs: a device computes several children of a module in one kernel or
// one parallel loop (ops/fusions.h) unless a rule replaces one of them or places it on another
// device.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/ops/fusions.h"
#include "graft/plan/plan.h"

namespace graft::plan {

// A child that keeps a fusion from running.
struct ReplacedChild {
  std::string_view name;                  // relative to the module: "q_proj"
  const ops::OperatorInfo* op = nullptr;  // what runs; null: this build lacks it
  Device device;                          // where it runs
  bool is_elsewhere = false;              // on another device than the module

  bool operator==(const ReplacedChild&) const = default;
};

struct LostFusion {
  const ModuleSpec* module = nullptr;  // the parent
  const ops::Fusion* fusion = nullptr;
  std::vector<std::string_view> children;  // that the fusion would join in this module
  std::vector<ReplacedChild> replaced;     // of these
  std::vector<ops::Phase> phases;          // in which it is lost

  std::string name() const { return fusion->name_of(children); }
};

// Relative to the default operators on the devices of the plan: what a device does not fuse anyway,
// because of the weight types for example, is not lost. A module whose own operator is from a
// plugin has no fusions here. In the order of the modules.
std::vector<LostFusion> lost_fusions(const Plan& plan);

// One line per fusion, equal layers folded; empty when nothing is lost:
//   lost fusions:
//     model.layers.0-26.self_attn: q_proj+k_proj+v_proj in one loop: q_proj is example.linear
std::string lost_fusions_text(const Plan& plan);

// [{module, fusion, children: [...], replaced: [{child, op, device}], phases: [...]}]
Json lost_fusions_json(const Plan& plan);

}  // namespace graft::plan
