#include "graft/perf/auto_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "graft/base/text/units.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/params.h"
#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules/rules.h"

namespace graft::perf {
namespace {

// GPUs that save less than this factor are not used: the estimate is not that exact.
constexpr double kMinSaving = 1.05;

void add_rule(std::string& text, const std::string& match, const std::string& kwargs) {
  text += fmt::format("\n- match:   {{ {} }}\n  replace: {{ class: default, kwargs: {{ {} }} }}\n",
                      match, kwargs);
}

std::string on_gpu(std::size_t gpu) {
  return fmt::format("device: \"cuda:{}\"", gpu);
}

std::string layer_range(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// Experts in host memory, for layers of a GPU.
std::string host_experts_kwargs(const GpuLayers& layers, std::size_t gpu) {
  if (!layers.streams) return fmt::format("device: cpu, out_device: \"cuda:{}\"", gpu);
  return fmt::format(
      R"(generate_device: cpu, prefill_device: "cuda:{0}", out_device: "cuda:{0}"{1})", gpu,
      layers.copies > 0 ? fmt::format(", gpu_experts: {}", layers.copies) : "");
}

void add_layers(std::string& text, const GpuLayers& layers, std::size_t gpu) {
  if (layers.last_experts >= layers.first_experts) {
    add_rule(text,
             "role: experts, layers: " + layer_range(layers.first_experts, layers.last_experts),
             on_gpu(gpu));
  }
  if (layers.first_host_experts() <= layers.last) {
    add_rule(text,
             "role: experts, layers: " + layer_range(layers.first_host_experts(), layers.last),
             host_experts_kwargs(layers, gpu));
  }
  add_rule(text, "layers: " + layer_range(layers.first, layers.last), on_gpu(gpu));
}

std::vector<std::size_t> used_gpus(const AutoLayout& layout) {
  std::vector<std::size_t> used;
  for (std::size_t gpu = 0; gpu < layout.gpus.size(); ++gpu) {
    if (!layout.gpus[gpu].empty()) used.push_back(gpu);
  }
  return used;
}

std::string rules_text(const AutoLayout& layout) {
  const std::vector<std::size_t> used = used_gpus(layout);
  std::string text;
  const bool is_one_gpu = layout.is_whole && used.size() == 1;
  if (layout.has_vision && !(is_one_gpu && layout.vision_gpu == used.front())) {
    const std::string kwargs = layout.vision_gpu ? on_gpu(*layout.vision_gpu) : "device: cpu";
    for (const char* role : {"vision_tower", "multi_modal_projector"})
      add_rule(text, fmt::format("role: {}", role), kwargs);
  }
  if (is_one_gpu) {
    add_rule(text, R"(name: "")", on_gpu(used.front()));
    return text;
  }
  if (!used.empty()) {
    add_rule(text, "role: embedding", layout.is_whole ? on_gpu(used.front()) : "device: cpu");
    for (const std::size_t gpu : used)
      add_layers(text, layout.gpus[gpu], gpu);
    if (layout.head_on_gpu)
      add_rule(text, R"(name: "^(lm_head|model\\.norm|model\\.hc_head)$")", on_gpu(used.back()));
  }
  add_rule(text, R"(name: "")", layout.is_whole ? on_gpu(used.back()) : std::string("device: cpu"));
  return text;
}

// "cuda:0 and cuda:1"
std::string gpus_text(const std::vector<std::size_t>& gpus) {
  std::string text;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const char* separator = i == 0 ? "" : i + 1 == gpus.size() ? " and " : ", ";
    text += fmt::format("{}cuda:{}", separator, gpus[i]);
  }
  return text;
}

// "experts of layers 3-5 only on cuda:0; 24 of 128 per layer also on cuda:1"
std::string experts_text(const AutoLayout& layout) {
  std::string copies;
  std::string only;
  for (const std::size_t gpu : used_gpus(layout)) {
    const GpuLayers& layers = layout.gpus[gpu];
    if (layers.copies > 0 && layers.first_host_experts() <= layers.last) {
      copies += copies.empty() ? fmt::format(", {} of {} per layer also on cuda:{}", layers.copies,
                                             layout.num_experts, gpu)
                               : fmt::format(", {} on cuda:{}", layers.copies, gpu);
    }
    if (layers.last_experts >= layers.first_experts) {
      only += fmt::format(", those of layers {} only on cuda:{}",
                          layer_range(layers.first_experts, layers.last_experts), gpu);
    }
  }
  return "experts on the CPU" + only + copies;
}

// "; images on cuda:0"
std::string vision_text(const AutoLayout& layout) {
  if (!layout.has_vision) return "";
  return layout.vision_gpu ? fmt::format("; images on cuda:{}", *layout.vision_gpu)
                           : "; images on the CPU";
}

std::string summary_text(const AutoLayout& layout) {
  const std::vector<std::size_t> used = used_gpus(layout);
  if (used.empty()) return "everything on the CPU" + (layout.vision_gpu ? vision_text(layout) : "");
  if (layout.is_whole && (!layout.has_vision || layout.vision_gpu == used.front()))
    return "everything on " + gpus_text(used);
  if (layout.is_whole) return "the text model on " + gpus_text(used) + vision_text(layout);
  const GpuLayers& last = layout.gpus[used.back()];
  std::string text;
  if (last.last + 1 < layout.num_layers) {
    text = fmt::format("layers {} on {}, the others on the CPU", layer_range(0, last.last),
                       gpus_text(used));
  } else if (layout.num_experts == 0) {
    text = fmt::format("all layers on {}, {} on the CPU", gpus_text(used),
                       layout.head_on_gpu ? "the embedding" : "embedding and head");
  }
  if (layout.num_experts > 0) text += (text.empty() ? "" : "; ") + experts_text(layout);
  return text + vision_text(layout);
}

// Whether GPUs have an operator for every module of the text model.
bool can_use_gpus(const plan::Blueprint& blueprint) {
  bool can_use = true;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    if (plan::is_structural(module.role) || ops::is_vision(module.role) ||
        std::holds_alternative<ops::NoParams>(module.params))
      return;
    const auto is_operator = [&](const ops::OperatorInfo& op) {
      return op.role == module.role && op.supports(module.params);
    };
    can_use = can_use && std::ranges::any_of(ops::cuda_operators(), is_operator);
  });
  return can_use;
}

// Of a typical request with a layout; infinite when it does not fit.
double request_seconds(const plan::Blueprint& blueprint,
                       const MachineFigures& machine,
                       const Workload& load,
                       const AutoLayout& layout) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const plan::Machine devices = {.num_gpus = static_cast<int>(machine.gpus.size()),
                                 .plan_only = true};
  std::vector<plan::Finding> findings;
  const plan::RuleFile rules = plan::parse_rules(rules_text(layout), "layout", findings);
  const ops::Registry registry = ops::builtin_operators();
  plan::PlanResult planned = plan::make_plan(blueprint, rules, registry, devices);
  if (!planned.ok()) return kNever;
  set_stream_from(planned.plan, machine);
  Workload request = {.context = layout.context,
                      .parallel = load.parallel,
                      .prefill_tokens = layout.prefill_tokens};
  if (!estimate(planned.plan, machine, request).fits()) return kNever;
  request.prefill_tokens = kTypicalPrompt;
  request.context = kTypicalPrompt + kTypicalAnswer / 2;
  const Estimate speed = estimate(planned.plan, machine, request);
  const auto seconds = [](std::int64_t tokens, const PhaseEstimate& phase) {
    return phase.tokens_per_s > 0 ? static_cast<double>(tokens) / phase.tokens_per_s : 0;
  };
  return seconds(kTypicalPrompt, speed.prefill) +
         seconds(kTypicalAnswer * load.parallel, speed.decode);
}

}  // namespace

AutoLayout choose_layout(const plan::Blueprint& blueprint,
                         const MachineFigures& machine,
                         const Workload& load) {
  const std::vector<AutoLayout> layouts = possible_layouts(blueprint, machine, load);
  if (layouts.size() == 1) return layouts.front();
  std::vector<double> seconds(layouts.size());
  std::ranges::transform(layouts, seconds.begin(), [&](const AutoLayout& layout) {
    return request_seconds(blueprint, machine, load, layout);
  });
  const auto best = std::ranges::min_element(seconds);
  if (std::isinf(*best)) return layouts.front();
  // The last one is the CPU alone.
  if (seconds.back() <= kMinSaving * *best) return layouts.back();
  return layouts[static_cast<std::size_t>(best - seconds.begin())];
}

AutoRules auto_rules(const plan::Blueprint& blueprint,
                     const MachineFigures& machine,
                     const Workload& load) {
  MachineFigures usable = machine;
  if (!can_use_gpus(blueprint)) usable.gpus.clear();
  const AutoLayout layout = choose_layout(blueprint, usable, load);
  std::string text =
      fmt::format("# {} for {}", blueprint.model_name, bytes_text(usable.cpu.dram_bytes));
  for (const GpuFigures& gpu : usable.gpus)
    text += fmt::format(" + {} GPU memory", bytes_text(gpu.vram_bytes));
  text += fmt::format(", context {}, parallel {}.\n", layout.context, load.parallel);
  return {.text = text + rules_text(layout), .summary = summary_text(layout)};
}

}  // namespace graft::perf
