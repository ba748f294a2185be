#include "graft/cli/plan/plan_fit.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/convert/planned_types.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/perf/auto_rules.h"
#include "graft/perf/gpu_experts.h"

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

// Types that graft runs and does not write, for models that fit with none that it writes.
constexpr std::array<std::string_view, 7> kForeignTypes = {"IQ3_S",   "IQ3_XXS", "IQ2_S", "IQ2_XS",
                                                           "IQ2_XXS", "IQ1_M",   "IQ1_S"};

// Those with fewer bytes than `below`, the largest first.
std::vector<TypeSize> sizes_below(const models::Checkpoint& source,
                                  std::span<const std::string_view> types,
                                  std::uint64_t below) {
  // One blueprint for all types: each sets every type, and a copy has tens of thousands of names.
  plan::Blueprint blueprint = models::make_blueprint(source);
  std::vector<TypeSize> sizes;
  for (const std::string_view type : types) {
    convert::set_types(blueprint, source.config(), convert::mix_or_type(type));
    const std::uint64_t bytes = blueprint.weight_bytes();
    if (bytes < below) sizes.push_back({std::string(type), bytes});
  }
  std::ranges::stable_sort(sizes, std::ranges::greater(), &TypeSize::bytes);
  return sizes;
}

std::vector<std::string_view> written_types() {
  std::vector<std::string_view> names;
  for (const convert::Mix& mix : convert::mixes())
    names.push_back(mix.name);
  return names;
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
  perf::Workload load = to_plan.load;
  if (!to_plan.expert_pairs.empty())
    load.hit_rate = perf::hit_rate(result.plan, to_plan.expert_pairs);
  planned.estimate = perf::estimate(result.plan, machine, load);
  if (planned.estimate->fits()) return planned;
  perf::Estimate on_disk = perf::estimate_from_disk(result.plan, machine, load);
  if (on_disk.can_run()) planned.from_disk = std::move(on_disk);
  return planned;
}

bool generated_rules_fit(const PlanCase& to_plan) {
  return plan_case(to_plan, RuleSource::Generated, to_plan.inputs.type).fits();
}

std::optional<FittingType> largest_fitting_type(const PlanCase& to_plan, RuleSource rules) {
  const std::uint64_t planned = blueprint_in(*to_plan.source, to_plan.inputs.type).weight_bytes();
  const std::uint64_t memory = total_memory_of(to_plan.machine);
  const auto largest = [&](std::span<const std::string_view> types) {
    std::string found;
    for (const TypeSize& size : sizes_below(*to_plan.source, types, planned)) {
      if (found.empty() && size.bytes <= memory && plan_case(to_plan, rules, size.type).fits())
        found = size.type;
    }
    return found;
  };
  if (std::string type = largest(written_types()); !type.empty())
    return FittingType{.name = std::move(type), .is_written = true};
  if (std::string type = largest(kForeignTypes); !type.empty())
    return FittingType{.name = std::move(type), .is_written = false};
  return std::nullopt;
}

}  // namespace graft::cli
