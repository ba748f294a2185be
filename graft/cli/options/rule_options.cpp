#include "graft/cli/options/rule_options.h"

#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/convert/planned_types.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/ops/devices/gpu_operators.h"
#include "graft/perf/gpus.h"
#include "graft/perf/named_machines.h"
#include "graft/plan/cache_type.h"
#include "graft/plan/plugins.h"
#include "graft/plan/rules/default_rules.h"
#include "graft/tensor/gpus.h"

namespace graft::cli {
namespace {

// Queried once: creating the CUDA contexts takes a noticeable time.
const GpuList& found_gpus() {
  static const GpuList list = list_gpus();
  return list;
}

// Plans for other machines do not load libgraft_cuda.so: its operators can be planned without it.
ops::Registry operators_of(const plan::Machine& machine) {
  return machine.plan_only ? ops::builtin_operators() : ops::operators_for(machine.num_gpus);
}

plan::RuleFile rules_of(const PlanInputs& inputs,
                        const plan::Blueprint& blueprint,
                        std::vector<plan::Finding>& findings) {
  if (!inputs.rules_text.empty())
    return plan::parse_rules(inputs.rules_text, "automatic placement", findings);
  if (!inputs.rules.empty()) return plan::read_rules(inputs.rules, findings);
  const bool fits =
      inputs.gpu_bytes != 0 && plan::fits_gpu(blueprint.weight_bytes(), inputs.gpu_bytes);
  return plan::read_rules(plan::default_rules(blueprint.family, inputs.machine.num_gpus, fits),
                          findings);
}

std::string machine_names() {
  std::string names;
  for (const perf::NamedMachine& machine : perf::named_machines())
    names += (names.empty() ? "" : ", ") + std::string(machine.name);
  return names;
}

perf::MachineFigures other_machine(const std::string& file_or_name) {
  if (std::optional<perf::MachineFigures> named = perf::machine_by_name(file_or_name))
    return *std::move(named);
  std::error_code unknown;
  const bool is_name = file_or_name.find_first_of("./") == std::string::npos;
  if (is_name && !std::filesystem::exists(file_or_name, unknown))
    fail("--machine ", file_or_name, ": no such file; machines known by name: ", machine_names());
  return perf::machine_from_json(read_json_file(file_or_name), file_or_name);
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  if (unit.ends_with("iB")) unit.remove_suffix(2);
  if (unit.ends_with('B')) unit.remove_suffix(1);
  constexpr std::string_view kUnits = "KMGTP";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  const bool bad_unit = unit.size() > 1 || (!unit.empty() && power == 0);
  if (error != std::errc() || bad_unit || !std::isfinite(value) || value < 0)
    fail("\"", text, "\": not a size like 24G, 512M or 1.5T");
  const double bytes = value * std::pow(1024.0, static_cast<double>(power));
  if (bytes >= 9e18) fail("\"", text, "\": size is too large");
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t parse_memory(const std::string& option, const std::string& text) {
  constexpr std::uint64_t kMinBytes = std::uint64_t{1} << 20U;
  const std::uint64_t bytes = parse_bytes(text);
  const bool has_unit = !text.empty() && (text.back() < '0' || text.back() > '9');
  if (!has_unit && bytes < kMinBytes)
    fail(option, " ", text, ": the unit is missing, write ", text, "G");
  return bytes;
}

void PluginOptions::add_to(Command& command) {
  command.add_option("--plugin", libraries, "Library with operators; repeatable")
      ->option_text("LIB.so")
      ->allow_extra_args(false);
}

void add_cache_type_to(Command& command, std::string& value) {
  command
      .add_option("--kv-cache-dtype", value,
                  "Type of the KV cache: auto, f32, f16, bf16, fp8, q8_0, q4_0 "
                  "(default: auto, that of the rules, else f16)")
      ->check(IsMember({"auto", "f32", "f16", "bf16", "fp8", "q8_0", "q4_0"}))
      ->option_text("TYPE");
}

void MachineOptions::add_to(Command& command) {
  command.add_option("--gpus", gpus, "Number of GPUs (default: as in this machine)")
      ->check(Range(0, 64));
  command.add_option("--vram", vram, "Memory per GPU, e.g. 24G");
  command.add_option("--dram", dram, "Host memory, e.g. 512G");
  command
      .add_option("--machine", file,
                  "Another machine: a file of `graft machine --json`, or one of " + machine_names())
      ->option_text("FILE|NAME")
      ->excludes("--gpus");
}

void MachineOptions::add_cpu_to(Command& command) {
  command
      .add_option("--cpu-bandwidth", cpu_bandwidth,
                  "Read bandwidth of another CPU's memory in GB/s")
      ->check(Range(0.1, 1e5))
      ->option_text("GB/s");
  command.add_option("-t,--threads", threads, "Number of threads of another CPU")
      ->check(Range(1, 4096))
      ->option_text("N");
}

perf::MachineFigures MachineOptions::figures() const {
  perf::MachineFigures machine = file.empty() ? perf::this_machine() : other_machine(file);
  set_gpus(machine);
  if (!dram.empty()) machine.cpu.dram_bytes = parse_memory("--dram", dram);
  if (cpu_bandwidth > 0 || threads > 0) perf::assume_cpu(machine, cpu_bandwidth * 1e9, threads);
  return machine;
}

perf::MachineFigures MachineOptions::free_figures() const {
  perf::MachineFigures machine = figures();
  if (!file.empty()) return machine;
  const std::uint64_t stated = dram.empty() ? 0 : machine.cpu.dram_bytes;
  const bool has_own_gpus = gpus < 0 && vram.empty();
  perf::set_free_memory(machine, has_own_gpus ? found_gpus() : GpuList{}, stated);
  return machine;
}

void MachineOptions::set_gpus(perf::MachineFigures& machine) const {
  std::vector<perf::GpuFigures>& list = machine.gpus;
  const std::uint64_t bytes = vram.empty() ? 0 : parse_memory("--vram", vram);
  if (gpus == 0) {
    list.clear();
    machine.gpu_source.clear();
    return;
  }
  // With both options nothing of this machine's GPUs is left.
  const bool is_described = !file.empty() || (gpus > 0 && !vram.empty());
  if (!is_described) perf::set_found_gpus(machine, found_gpus());
  // --vram without --gpus means one GPU where there is none.
  if (list.empty() && (gpus > 0 || !vram.empty())) {
    list.push_back(perf::assumed_gpu());
    machine.gpu_source = "speeds assumed";
  }
  if (gpus > 0) {
    const perf::GpuFigures first = list.front();  // a copy: resize() moves the list
    list.resize(static_cast<std::size_t>(gpus), first);
  }
  if (vram.empty()) return;
  for (perf::GpuFigures& gpu : list)
    gpu.vram_bytes = bytes;
}

plan::Machine MachineOptions::devices(const perf::MachineFigures& machine) const {
  const std::size_t num_gpus = machine.gpus.size();
  const bool plan_only = is_hypothetical() || (num_gpus > 0 && num_gpus > found_gpus().gpus.size());
  return {.num_gpus = static_cast<int>(num_gpus), .plan_only = plan_only};
}

plan::Blueprint blueprint_in(const models::Checkpoint& source, const std::string& type) {
  plan::Blueprint blueprint = models::make_blueprint(source);
  if (!type.empty()) convert::set_types(blueprint, source.config(), convert::mix_or_type(type));
  return blueprint;
}

PlannedModel::PlannedModel(std::shared_ptr<const models::Checkpoint> source,
                           const PlanInputs& inputs)
    : source_(std::move(source)),
      blueprint_(blueprint_in(*source_, inputs.type)),
      registry_(operators_of(inputs.machine)) {
  std::vector<plan::Finding> findings;
  rules_ = rules_of(inputs, blueprint_, findings);
  plan::load_plugins(inputs.plugins.paths(), rules_, registry_, findings);
  result_ = plan::make_plan(blueprint_, rules_, registry_, inputs.machine);
  if (result_.ok()) plan::set_cache_type(result_.plan, inputs.kv_cache_dtype);
  result_.findings.insert(result_.findings.begin(), findings.begin(), findings.end());
  plan::sort_findings(result_.findings);
}

PlannedModel::PlannedModel(const std::filesystem::path& model,
                           const std::string& rules,
                           const PluginOptions& plugins,
                           const plan::Machine& machine)
    : PlannedModel(models::open_checkpoint(model),
                   {.rules = rules, .plugins = plugins, .machine = machine}) {}

}  // namespace graft::cli
