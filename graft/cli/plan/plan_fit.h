// Plans a model for a machine, and finds what would make it fit.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "graft/cli/options/rule_options.h"
#include "graft/models/expert_stats.h"
#include "graft/perf/estimate.h"

namespace graft::cli {

// What stays the same while types and rules are tried.
struct PlanCase {
  std::shared_ptr<const models::Checkpoint> source;
  perf::MachineFigures machine;       // for rules of a file
  perf::MachineFigures free_machine;  // for generated rules: with the free memory
  perf::Workload load;
  std::int64_t context = 0;               // as given; 0: placements choose
  models::ExpertPairs expert_pairs = {};  // of earlier runs; empty: unknown
  PlanInputs inputs;
};

struct PlannedCase {
  std::unique_ptr<PlannedModel> model;
  std::optional<perf::Estimate> estimate;  // nullopt: the rules have errors
  // With weights that do not fit into host memory on disk; nullopt: they fit, or it cannot run.
  std::optional<perf::Estimate> from_disk;
  std::string rules_text;  // generated rules; empty: rules of a file

  bool fits() const { return estimate && estimate->fits(); }
};

// Given: inputs.rules; Generated, and where these are empty: perf::auto_rules().
enum class RuleSource : std::uint8_t { Given, Generated };

// `type` replaces that of the inputs. Throws Error like PlannedModel and perf::auto_rules().
PlannedCase plan_case(const PlanCase& to_plan, RuleSource rules, const std::string& type);

// Whether generated rules fit where the given ones do not.
bool generated_rules_fit(const PlanCase& to_plan);

struct FittingType {
  std::string name;         // "Q3_K_M"
  bool is_written = false;  // by `graft quantize`
};

// The mix with the most bytes that fits, of those smaller than the planned type; where none does,
// the type of one to three bits that graft runs and does not write.
std::optional<FittingType> largest_fitting_type(const PlanCase& to_plan, RuleSource rules);

}  // namespace graft::cli
