#include "graft/cli/plan_fit.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "graft/convert/planned_types.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/perf/auto_rules.h"

namespace graft::cli {
namespace {

// Of all devices; the maximum when one of them is unknown.
std::uint64_t total_memory_of(const perf::MachineFigures& machine) {
  std::uint64_t bytes = machine.cpu.dram_bytes;
  bool is_known = bytes != 0;
  for (const perf::GpuFigures& gpu : machine.gpus) {
    bytes += gpu.vram_bytes;
    is_known = is_known && gpu.vram_bytes != 0;
  }
  return is_known ? bytes : std::numeric_limits<std::uint64_t>::max();
}

struct TypeSize {
  std::string type;
  std::uint64_t bytes = 0;
};

// The mixes with fewer bytes than `below`, the largest first.
std::vector<TypeSize> mixes_below(const models::Checkpoint& source, std::uint64_t below) {
  // One blueprint for all mixes: each sets every type, and a copy has tens of thousands of names.
  plan::Blueprint blueprint = models::make_blueprint(source);
  std::vector<TypeSize> sizes;
  for (const convert::Mix& mix : convert::mixes()) {
    convert::set_types(blueprint, source.config(), mix);
    const std::uint64_t bytes = blueprint.weight_bytes();
    if (bytes < below) sizes.push_back({std::string(mix.name), bytes});
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &TypeSize::bytes);
  return sizes;
}

}  // namespace

PlannedCase plan_case(const PlanCase& to_plan, RuleSource rules, const std::string& type) {
  PlannedCase planned;
  PlanInputs inputs = to_plan.inputs;
  inputs.type = type;
  const bool is_generated = rules == RuleSource::Generated || inputs.rules.empty();
  const perf::MachineFigures& machine = is_generated ? to_plan.free_machine : to_plan.machine;
  const perf::Workload placed = {
      .context = to_plan.context, .parallel = to_plan.load.parallel, .prefill_tokens = 0};
  if (is_generated) {
    planned.rules_text =
        perf::auto_rules(blueprint_in(*to_plan.source, type), machine, placed).text;
    inputs.rules.clear();
    inputs.rules_text = planned.rules_text;
  }
  planned.model = std::make_unique<PlannedModel>(to_plan.source, inputs);
  planned.model->adjust(machine, placed);
  const plan::PlanResult& result = planned.model->result();
  if (!result.ok()) return planned;
  planned.estimate = perf::estimate(result.plan, machine, to_plan.load);
  if (planned.estimate->fits()) return planned;
  perf::Estimate on_disk = perf::estimate_from_disk(result.plan, machine, to_plan.load);
  if (on_disk.can_run()) planned.from_disk = std::move(on_disk);
  return planned;
}

bool generated_rules_fit(const PlanCase& to_plan) {
  return plan_case(to_plan, RuleSource::Generated, to_plan.inputs.type).fits();
}

std::string largest_fitting_type(const PlanCase& to_plan, RuleSource rules) {
  const plan::Blueprint planned = blueprint_in(*to_plan.source, to_plan.inputs.type);
  const std::uint64_t memory = total_memory_of(to_plan.machine);
  for (const TypeSize& size : mixes_below(*to_plan.source, planned.weight_bytes())) {
    if (size.bytes <= memory && plan_case(to_plan, rules, size.type).fits()) return size.type;
  }
  return {};
}

}  // namespace graft::cli
