// Fuzzes rule files: parsing and planning end with findings or throw Error.

#include <cstddef>
#include <cstdint>
#include <string>

#include "graft/base/error.h"
#include "graft/plan/report.h"
#include "graft/testing/plans.h"

namespace {

void plan_with(const std::string& text) {
  namespace plan = graft::plan;
  static const plan::Blueprint blueprint = plan::testing::deepseek_v3(4);
  static const graft::ops::Registry registry = plan::testing::full_registry();
  std::vector<plan::Finding> findings;
  const plan::RuleFile file = plan::parse_rules(text, "fuzz.yaml", findings);
  for (const plan::Machine machine : {plan::Machine{.num_gpus = 2, .plan_only = false},
                                      plan::Machine{.num_gpus = 0, .plan_only = true}}) {
    const plan::PlanResult result = plan::make_plan(blueprint, file, registry, machine);
    plan::plan_text(result.plan);
    plan::findings_text(result.findings);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    plan_with(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const graft::Error&) {
    // A valid outcome.
  }
  return 0;
}
