// graft plan and graft rules check: placement, memory and estimated speed, without reading weights.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/options/rule_options.h"
#include "graft/cli/plan/plan_adapters.h"
#include "graft/cli/plan/plan_fit.h"
#include "graft/models/build/make_blueprint.h"
#include "graft/models/build/shapes.h"
#include "graft/models/expert_stats.h"
#include "graft/ops/params.h"
#include "graft/perf/estimate.h"
#include "graft/plan/report.h"

namespace graft::cli {
namespace {

struct PlanOptions {
  ModelChoice model;
  std::string rules;
  std::string type;  // empty: the types of the checkpoint
  std::string kv_cache_dtype;
  std::string expert_stats;       // file
  std::vector<std::string> lora;  // NAME=PATH[:SCALE]
  PluginOptions plugins;
  MachineOptions machine;
  perf::Workload load;
  std::int64_t context = 0;  // as given
  std::string kv_host;       // size
  bool json = false;
  bool automatic = false;

  RuleSource rule_source() const { return automatic ? RuleSource::Generated : RuleSource::Given; }
};

// What would make a model fit that does not.
struct Remedy {
  bool generated_rules = false;
  std::optional<FittingType> fits_from;  // the largest type that fits
};

// Of the planned model, as runs with --expert-stats have written them.
models::ExpertPairs pairs_in(const std::string& path, const std::string& model) {
  const models::ExpertStats stats = models::read_expert_stats(path);
  const auto found = stats.find(model);
  if (found != stats.end()) return found->second;
  std::string known;
  for (const auto& [name, pairs] : stats)
    known += (known.empty() ? "" : ", ") + name;
  fail(path, ": no expert statistics of ", model, " (of: ", known.empty() ? "no model" : known,
       ")");
}

PlanCase case_of(const PlanOptions& options) {
  PlanCase to_plan;
  to_plan.machine = options.machine.figures();
  to_plan.free_machine = options.machine.free_figures();
  to_plan.source = options.model.open_or_shape();
  to_plan.load = options.load;
  to_plan.context = options.context;
  if (options.context > 0) to_plan.load.context = options.context;
  if (!options.kv_host.empty()) to_plan.load.host_tier = parse_memory("--kv-host", options.kv_host);
  if (!options.expert_stats.empty())
    to_plan.expert_pairs = pairs_in(options.expert_stats, to_plan.source->config().name);
  const std::vector<perf::GpuFigures>& gpus = to_plan.machine.gpus;
  to_plan.inputs = {.rules = options.rules,
                    .plugins = options.plugins,
                    .machine = options.machine.devices(to_plan.machine),
                    .gpu_bytes = gpus.empty() ? 0 : gpus.front().vram_bytes,
                    .type = options.type,
                    .kv_cache_dtype = options.kv_cache_dtype};
  return to_plan;
}

void print_devices(const perf::Estimate& estimate) {
  // Only models with recurrent states have their column.
  const bool has_states = std::ranges::any_of(
      estimate.devices, [](const auto& entry) { return entry.second.states > 0; });
  const auto states = [&](const std::string& text) {
    return has_states ? fmt::format(" {:>11}", text) : std::string();
  };
  fmt::print("\n  {:<8} {:>11} {:>11}{} {:>11} {:>11} {:>11}\n", "device", "weights", "KV cache",
             states("states"), "workspace", "total", "capacity");
  for (const auto& [device, bytes] : estimate.devices) {
    fmt::print("  {:<8} {:>11} {:>11}{} {:>11} {:>11} {:>11}{}\n", to_string(device),
               bytes_text(bytes.weights), bytes_text(bytes.kv_cache),
               states(bytes_text(bytes.states)), bytes_text(bytes.workspace),
               bytes_text(bytes.total()), bytes.capacity == 0 ? "?" : bytes_text(bytes.capacity),
               bytes.fits() ? "" : "  DOES NOT FIT");
  }
}

void print_speed(const char* label, const perf::PhaseEstimate& speed) {
  fmt::print("  {:<13} {:>10.{}f}  limited by {}\n", label, speed.tokens_per_s,
             speed.tokens_per_s < 10 ? 2 : 1, speed.limit);
}

std::string type_note(const std::string& type) {
  return type.empty() ? "" : "; weights in " + type;
}

std::string fit_text(const Remedy& remedy) {
  if (!remedy.fits_from) return "No type of at least 1.6 bits fits.";
  const auto& [type, is_written] = *remedy.fits_from;
  return fmt::format("Fits from {0} on (--type {0}{1}).", type,
                     is_written ? "" : "; `graft quantize` does not write it");
}

void print_from_disk(const perf::MachineFigures& machine, const perf::Estimate& from_disk) {
  const perf::MemoryUse& cpu = from_disk.devices.at(kCpu);
  fmt::print(
      "  Runs slowly from disk (--repack-cache): a file of {} beside the model, read at {:.1f} "
      "GB/s ({}).\n",
      bytes_text(cpu.mapped), perf::disk_read_bytes_per_s(machine) / 1e9,
      machine.disk.read_bytes_per_s > 0 ? "measured" : "assumed; `graft machine` measures it");
  print_speed("prefill tok/s", from_disk.prefill);
  print_speed("decode tok/s", from_disk.decode);
}

// Of the layers with copies of experts in GPU memory: "16 of 128".
std::string copies_text(const plan::Plan& plan) {
  std::int64_t most = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t all = 0;
  for (const plan::Placement& placement : plan.placements) {
    const std::int64_t copies = plan::gpu_experts(placement);
    if (copies == 0) continue;
    most = std::max(most, copies);
    least = std::min(least, copies);
    all = std::get<ops::ExpertsParams>(placement.module->params).num_experts;
  }
  if (most == 0) return "";
  return fmt::format(
      "{} of {}", most == least ? std::to_string(most) : fmt::format("{} to {}", least, most), all);
}

// Experts in host memory: what is streamed, and what copies in GPU memory save.
void print_experts(const PlanCase& to_plan, const PlannedCase& planned) {
  const plan::Plan& plan = planned.model->result().plan;
  if (const std::int64_t from = plan::stream_from(plan); from > 0) {
    const double bytes = planned.estimate->prefill.streamed_bytes;
    fmt::print("  prefill streams the experts to the GPU from {} tokens on, {} in a pass of {}\n",
               from, bytes_text(static_cast<std::uint64_t>(bytes)), to_plan.load.prefill_tokens);
  }
  if (const std::string copies = copies_text(plan); !copies.empty()) {
    fmt::print("  copies of {} experts per layer on the GPU serve {:.1f} % of the routing ({})\n",
               copies, 100 * planned.estimate->hit_rate,
               to_plan.expert_pairs.empty() ? "all used equally often" : "of --expert-stats");
  }
}

void print_plan(const PlanCase& to_plan, const PlannedCase& planned, const Remedy& remedy) {
  const PlannedModel& model = *planned.model;
  const plan::Blueprint& blueprint = model.blueprint();
  fmt::print("{} ({}), {} parameters, {} active per token; rules {}{}\n\n", blueprint.model_name,
             blueprint.family, count_text(static_cast<double>(models::num_parameters(blueprint))),
             count_text(static_cast<double>(models::num_parameters_per_token(blueprint))),
             model.rules().path.string(), type_note(to_plan.inputs.type));
  fmt::print("{}", plan::plan_text(model.result().plan));
  print_devices(*planned.estimate);
  const perf::MachineFigures& machine = to_plan.machine;
  fmt::print("\n  batch {}, context {} tokens\n", to_plan.load.parallel, to_plan.load.context);
  fmt::print("  CPU figures: {}\n", machine.cpu_source);
  if (!machine.gpu_source.empty()) fmt::print("  GPU figures: {}\n", machine.gpu_source);
  print_experts(to_plan, planned);
  if (!planned.from_disk) {
    print_speed("prefill tok/s", planned.estimate->prefill);
    print_speed("decode tok/s", planned.estimate->decode);
  }
  if (planned.fits()) return;
  fmt::print("\n  Does not fit: {}.\n  {}\n", perf::shortage_text(*planned.estimate),
             fit_text(remedy));
  if (remedy.generated_rules) fmt::print("  `graft plan --auto` writes rules that fit.\n");
  if (planned.from_disk) print_from_disk(machine, *planned.from_disk);
}

Json speed_json(const perf::PhaseEstimate& speed) {
  return {{"tokens_per_s", speed.tokens_per_s}, {"limit", speed.limit}, {"seconds", speed.seconds}};
}

Json from_disk_json(const PlanCase& to_plan, const perf::Estimate& from_disk) {
  return {{"file_bytes", from_disk.devices.at(kCpu).mapped},
          {"read_bytes_per_s", perf::disk_read_bytes_per_s(to_plan.machine)},
          {"is_measured", to_plan.machine.disk.read_bytes_per_s > 0},
          {"prefill", speed_json(from_disk.prefill)},
          {"generate", speed_json(from_disk.decode)}};
}

Json estimate_json(const PlanCase& to_plan, const PlannedCase& planned, const Remedy& remedy) {
  const PlannedModel& model = *planned.model;
  const perf::Estimate& estimate = *planned.estimate;
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  Json json = plan::plan_json(model.result().plan);
  json["parameters"] = models::num_parameters(model.blueprint());
  json["parameters_per_token"] = models::num_parameters_per_token(model.blueprint());
  for (const auto& [device, bytes] : estimate.devices) {
    json["devices"][to_string(device)] = {
        {"weights", bytes.weights},     {"kv_cache", bytes.kv_cache}, {"states", bytes.states},
        {"workspace", bytes.workspace}, {"total", bytes.total()},     {"capacity", bytes.capacity},
        {"fits", bytes.fits()}};
  }
  const std::int64_t stream_from = plan::stream_from(model.result().plan);
  json["stream_from"] = stream_from > 0 ? Json(stream_from) : Json();
  json["streamed_bytes"] = estimate.prefill.streamed_bytes;
  json["hit_rate"] = estimate.hit_rate;
  json["prefill"] = speed_json(estimate.prefill);
  json["generate"] = speed_json(estimate.decode);
  json["findings"] = plan::findings_json(model.result().findings);
  json["type"] = or_null(to_plan.inputs.type);
  json["figures"] = {{"cpu", or_null(to_plan.machine.cpu_source)},
                     {"gpus", or_null(to_plan.machine.gpu_source)}};
  json["fits"] = planned.fits();
  if (!planned.fits()) json["fits_from"] = remedy.fits_from ? Json(remedy.fits_from->name) : Json();
  json["from_disk"] = planned.from_disk ? from_disk_json(to_plan, *planned.from_disk) : Json();
  return json;
}

// Rules that do not fit are not printed: they would only fail later, at the load.
int print_rules(const PlanCase& to_plan, const PlannedCase& planned) {
  const std::string& name = planned.model->blueprint().model_name;
  if (!planned.fits()) {
    const Remedy remedy = {.fits_from = largest_fitting_type(to_plan, RuleSource::Generated)};
    fmt::print(stderr, "{}: no placement fits: {}. {}\n", name,
               perf::shortage_text(*planned.estimate), fit_text(remedy));
    return 1;
  }
  const std::string& type = to_plan.inputs.type;
  if (!type.empty()) fmt::print("# Weights in {}.\n", type);
  fmt::print("{}", planned.rules_text);
  return 0;
}

int plan_model(const PlanOptions& options) {
  const PlanCase to_plan = case_of(options);
  PlannedCase planned = plan_case(to_plan, options.rule_source(), options.type);
  const std::vector<PlannedAdapter> adapters = plan_adapters(options.lora, to_plan, planned);
  const plan::PlanResult& result = planned.model->result();
  if (!options.json) fmt::print(stderr, "{}", plan::findings_text(result.findings));
  if (!planned.estimate) return 1;
  if (options.automatic) return print_rules(to_plan, planned);
  Remedy remedy;
  if (!planned.fits()) {
    remedy = {.generated_rules = !options.rules.empty() && generated_rules_fit(to_plan),
              .fits_from = largest_fitting_type(to_plan, RuleSource::Given)};
  }
  if (options.json) {
    Json json = estimate_json(to_plan, planned, remedy);
    json["adapters"] = adapters_json(adapters);
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_plan(to_plan, planned, remedy);
    fmt::print("{}", adapters_text(adapters));
  }
  return planned.fits() ? 0 : 1;
}

// The devices that the model does not fit. For another machine than this one, only where
// the options state how much memory it has.
std::vector<plan::Finding> memory_findings(const PlanOptions& options,
                                           const PlanCase& to_check,
                                           const perf::Estimate& estimate) {
  const MachineOptions& given = options.machine;
  const bool has_figures = !given.is_hypothetical() || !given.file.empty();
  std::vector<plan::Finding> findings;
  for (const auto& [device, bytes] : estimate.devices) {
    const bool is_stated = !(device == kCpu ? given.dram : given.vram).empty();
    if (bytes.fits() || !(has_figures || is_stated)) continue;
    findings.push_back(
        {.kind = plan::Finding::Kind::Error,
         .where = options.rules,
         .text = fmt::format("the model does not fit: {} needs {}, has {}", to_string(device),
                             bytes_text(bytes.total()), bytes_text(bytes.capacity))});
  }
  if (!findings.empty() && generated_rules_fit(to_check))
    findings.back().text += "; `graft plan --auto` writes rules that fit";
  return findings;
}

int check_rules(const PlanOptions& options) {
  const PlanCase to_check = case_of(options);
  const PlannedCase checked = plan_case(to_check, RuleSource::Given, options.type);
  const PlannedModel& model = *checked.model;
  const plan::PlanResult& result = model.result();
  std::vector<plan::Finding> findings = result.findings;
  bool fits = true;
  if (checked.estimate) {
    for (plan::Finding& finding : memory_findings(options, to_check, *checked.estimate)) {
      findings.push_back(std::move(finding));
      fits = false;
    }
    plan::sort_findings(findings);
  }
  if (options.json) {
    fmt::print("{}\n",
               plan::findings_json(findings).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", plan::findings_text(findings));
    fmt::print("{}: {} rules, {} for {}\n", options.rules, model.rules().rules.size(),
               !result.ok() ? "NOT VALID"
               : fits       ? "valid"
                            : "valid, but too large",
               model.blueprint().model_name);
  }
  return result.ok() && fits ? 0 : 1;
}

void add_load(Command& command, PlanOptions& options) {
  command
      .add_option("--context", options.context,
                  "Context length of each sequence in tokens (default: 4096, and a placement that "
                  "leaves memory for up to 32768)")
      ->check(Range(1, 1 << 24))
      ->option_text("TOKENS");
  command
      .add_option("--kv-host", options.kv_host,
                  "Host memory for KV cache blocks of earlier prompts, as of `graft serve` "
                  "(default: 0)")
      ->option_text("SIZE");
  command.add_option("--parallel", options.load.parallel, "Number of sequences in the batch")
      ->check(Range(1, 1 << 16));
}

std::string shape_summaries() {
  std::string text = "\nModels that need no file:\n ";
  for (const models::Shape& shape : models::shapes())
    text += fmt::format(" {}", shape.summary);
  return text;
}

}  // namespace

void add_plan(Command& app) {
  auto options = std::make_shared<PlanOptions>();
  Command* command =
      app.add_subcommand("plan", "Print placement, memory and estimated speed of a model");
  command->footer(
      "Examples:\n"
      "  graft plan                                      the bundled model on this machine\n"
      "  graft plan DeepSeek-V3 --type Q4_K_M --gpus 1 --vram 24G --dram 384G\n"
      "  graft plan config.json --gpus 1 --vram 24G --dram 512G\n"
      "  graft plan DeepSeek-V3 --type F8_E4M3 --machine h100-server\n"
      "  graft plan model.gguf --auto > my.yaml          a rule file for this machine\n"
      "\nExit code 1: the model does not fit into memory. It may run from disk, slowly.\n" +
      shape_summaries());
  options->model.add_to(*command, "MODEL");
  command->add_option("--rules", options->rules,
                      "Rule file (default: chosen for the model and the machine)");
  command
      ->add_option("--type", options->type,
                   "Plan for weights of another type, e.g. Q4_K_M (default: as they are)")
      ->option_text("TYPE");
  add_cache_type_to(*command, options->kv_cache_dtype);
  command
      ->add_option("--expert-stats", options->expert_stats,
                   "File of expert statistics of earlier runs (default: all experts are used "
                   "equally often)")
      ->option_text("FILE");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--auto", options->automatic,
                    "Print a rule file for this model and machine instead of the plan");
  add_lora_to(*command, options->lora);
  options->plugins.add_to(*command);
  options->machine.add_to(*command);
  options->machine.add_cpu_to(*command);
  add_load(*command, *options);
  command->callback([options] { exit_with(plan_model(*options)); });
}

void add_rules(Command& app) {
  auto options = std::make_shared<PlanOptions>();
  Command* rules = app.add_subcommand("rules", "Work with rule files");
  rules->require_subcommand(1);
  Command* command = rules->add_subcommand("check", "Report errors and warnings in a rule file");
  command->footer("Exit code 1: the rules have errors, or the model does not fit into the memory.");
  command->add_option("FILE", options->rules, "Rule file")->required();
  options->model.add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  options->plugins.add_to(*command);
  options->machine.add_to(*command);
  command->callback([options] { exit_with(check_rules(*options)); });
}

}  // namespace graft::cli
