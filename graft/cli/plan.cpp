// graft plan and graft rules check: placement, memory and estimated speed, without reading weights.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/rule_options.h"
#include "graft/models/make_blueprint.h"
#include "graft/perf/estimate.h"
#include "graft/plan/report.h"

namespace graft::cli {
namespace {

struct Options {
  ModelChoice model;
  std::string rules;
  PluginOptions plugins;
  MachineOptions machine;
  perf::Workload load;
  bool json = false;
  bool automatic = false;
};

void print_devices(const perf::Estimate& estimate) {
  fmt::print("\n  {:<8} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "device", "weights", "KV cache",
             "workspace", "total", "capacity");
  for (const auto& [device, bytes] : estimate.devices) {
    fmt::print("  {:<8} {:>11} {:>11} {:>11} {:>11} {:>11}{}\n", to_string(device),
               bytes_text(bytes.weights), bytes_text(bytes.kv_cache), bytes_text(bytes.workspace),
               bytes_text(bytes.total()), bytes.capacity == 0 ? "?" : bytes_text(bytes.capacity),
               bytes.fits() ? "" : "  DOES NOT FIT");
  }
}

void print_speed(const char* label, const perf::PhaseEstimate& speed) {
  fmt::print("  {:<13} {:>10.1f}  limited by {}\n", label, speed.tokens_per_s, speed.limit);
}

void print_plan(const PlannedModel& model,
                const perf::MachineFigures& machine,
                const perf::Estimate& estimate,
                const perf::Workload& load) {
  const plan::Blueprint& blueprint = model.blueprint();
  fmt::print("{} ({}), {} parameters, {} active per token; rules {}\n\n", blueprint.model_name,
             blueprint.family, count_text(static_cast<double>(models::num_parameters(blueprint))),
             count_text(static_cast<double>(models::num_parameters_per_token(blueprint))),
             model.rules().path.string());
  fmt::print("{}", plan::plan_text(model.result().plan));
  print_devices(estimate);
  fmt::print("\n  batch {}, context {} tokens, machine: {}\n", load.parallel, load.context,
             machine.name);
  print_speed("prefill tok/s", estimate.prefill);
  print_speed("decode tok/s", estimate.decode);
  if (!estimate.fits())
    fmt::print("\n  The model does not fit. `graft plan --auto` writes rules that fit.\n");
}

Json speed_json(const perf::PhaseEstimate& speed) {
  return {{"tokens_per_s", speed.tokens_per_s}, {"limit", speed.limit}, {"seconds", speed.seconds}};
}

Json estimate_json(const PlannedModel& model, const perf::Estimate& estimate) {
  Json json = plan::plan_json(model.result().plan);
  json["parameters"] = models::num_parameters(model.blueprint());
  json["parameters_per_token"] = models::num_parameters_per_token(model.blueprint());
  for (const auto& [device, bytes] : estimate.devices) {
    json["devices"][to_string(device)] = {
        {"weights", bytes.weights}, {"kv_cache", bytes.kv_cache}, {"workspace", bytes.workspace},
        {"total", bytes.total()},   {"capacity", bytes.capacity}, {"fits", bytes.fits()}};
  }
  json["prefill"] = speed_json(estimate.prefill);
  json["generate"] = speed_json(estimate.decode);
  json["findings"] = plan::findings_json(model.result().findings);
  return json;
}

int plan_model(const Options& options) {
  const perf::MachineFigures machine = options.machine.figures();
  if (options.automatic) {
    const auto source = models::open_checkpoint(options.model.path());
    const plan::Blueprint blueprint = models::make_blueprint(*source);
    fmt::print("{}", perf::auto_rules(blueprint, machine, options.load));
    return 0;
  }
  const PlannedModel model(
      options.model.path(), options.rules, options.plugins,
      {.num_gpus = static_cast<int>(machine.gpus.size()), .plan_only = !machine.gpus.empty()},
      machine.gpus.empty() ? 0 : machine.gpus.front().vram_bytes);
  if (!options.json) fmt::print(stderr, "{}", plan::findings_text(model.result().findings));
  if (!model.result().ok()) return 1;
  const perf::Estimate estimate = perf::estimate(model.result().plan, machine, options.load);
  if (options.json) {
    fmt::print("{}\n",
               estimate_json(model, estimate).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_plan(model, machine, estimate, options.load);
  }
  return 0;
}

// Warns about devices that the model does not fit. For another machine than this one, only where
// the options state how much memory it has.
std::vector<plan::Finding> memory_findings(const Options& options, const PlannedModel& model) {
  const MachineOptions& given = options.machine;
  const bool has_figures = !given.is_hypothetical() || !given.file.empty();
  const perf::Estimate estimate =
      perf::estimate(model.result().plan, given.figures(), options.load);
  std::vector<plan::Finding> findings;
  for (const auto& [device, bytes] : estimate.devices) {
    const bool is_stated = !(device == kCpu ? given.dram : given.vram).empty();
    if (bytes.fits() || !(has_figures || is_stated)) continue;
    findings.push_back(
        {.kind = plan::Finding::Kind::Warning,
         .where = options.rules,
         .text = fmt::format("the model does not fit: {} needs {} of {}; `graft plan --auto` "
                             "writes rules that fit",
                             to_string(device), bytes_text(bytes.total()),
                             bytes_text(bytes.capacity))});
  }
  return findings;
}

int check_rules(const Options& options) {
  const int num_gpus = options.machine.gpus >= 0
                           ? options.machine.gpus
                           : static_cast<int>(options.machine.figures().gpus.size());
  const PlannedModel model(
      options.model.path(), options.rules, options.plugins,
      {.num_gpus = num_gpus, .plan_only = num_gpus > 0 || options.machine.is_hypothetical()});
  const plan::PlanResult& result = model.result();
  std::vector<plan::Finding> findings = result.findings;
  if (result.ok()) {
    for (plan::Finding& finding : memory_findings(options, model))
      findings.push_back(std::move(finding));
    plan::sort_findings(findings);
  }
  if (options.json) {
    fmt::print("{}\n",
               plan::findings_json(findings).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", plan::findings_text(findings));
    fmt::print("{}: {} rules, {} for {}\n", options.rules, model.rules().rules.size(),
               result.ok() ? "valid" : "NOT VALID", model.blueprint().model_name);
  }
  return result.ok() ? 0 : 1;
}

void add_load(Command& command, perf::Workload& load) {
  command.add_option("--context", load.context, "Context length of each sequence in tokens")
      ->check(Range(1, 1 << 24));
  command.add_option("--parallel", load.parallel, "Number of sequences in the batch")
      ->check(Range(1, 1 << 16));
}

}  // namespace

void add_plan(Command& app) {
  auto options = std::make_shared<Options>();
  Command* command =
      app.add_subcommand("plan", "Print placement, memory and estimated speed of a model");
  command->footer(
      "Examples:\n"
      "  graft plan                                      the bundled model on this machine\n"
      "  graft plan config.json --gpus 1 --vram 24G --dram 512G\n"
      "  graft plan model.gguf --auto > my.yaml          a rule file for this machine");
  options->model.add_to(*command, "MODEL");
  command->add_option("--rules", options->rules, "Rule file (default: by model family)");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--auto", options->automatic,
                    "Print a rule file for this model and machine instead of the plan");
  options->plugins.add_to(*command);
  options->machine.add_to(*command);
  add_load(*command, options->load);
  command->callback([options] { exit_with(plan_model(*options)); });
}

void add_rules(Command& app) {
  auto options = std::make_shared<Options>();
  Command* rules = app.add_subcommand("rules", "Work with rule files");
  rules->require_subcommand(1);
  Command* command = rules->add_subcommand("check", "Report errors and warnings in a rule file");
  command->add_option("FILE", options->rules, "Rule file")->required();
  options->model.add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  options->plugins.add_to(*command);
  options->machine.add_to(*command);
  command->callback([options] { exit_with(check_rules(*options)); });
}

}  // namespace graft::cli
