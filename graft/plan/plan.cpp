#include "graft/plan/plan.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>

#include "graft/base/check.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/plan/checks/check_kwargs.h"
#include "graft/plan/checks/collector.h"
#include "graft/plan/checks/missing_gpus.h"
#include "graft/plan/checks/out_devices.h"
#include "graft/plan/experts/deferral.h"
#include "graft/plan/experts/gpu_experts.h"
#include "graft/plan/planned_operators.h"
#include "graft/plan/resolve.h"
#include "graft/plan/rules/matcher.h"
#include "graft/plan/rules/stream_from.h"
#include "graft/plan/vision_rules.h"

namespace graft::plan {
namespace {

using ops::OperatorInfo;
using ops::Role;

std::string_view type_name(DeviceType type) {
  return type == DeviceType::Cpu ? "cpu" : "cuda";
}

// Mixtral's and Qwen's routers are plain Linears in Hugging Face's tree, so rules for all Linears
// apply to them too.
bool can_replace(Role role, const ModuleSpec& module) {
  return role == module.role || (role == Role::Linear && module.role == Role::Router &&
                                 is_instance(module.class_name, "Linear"));
}

bool is_bias(const WeightSpec& weight) {
  return weight.name.ends_with("bias");
}

// A table of expert ids. Operators convert it to their own integers when they load it.
bool is_id_table(const WeightSpec& weight) {
  return weight.name.ends_with(".tid2eid");
}

class Planner {
 public:
  Planner(const Blueprint& blueprint,
          const RuleFile& rules,
          const ops::Registry& registry,
          const Machine& machine)
      : operators_(registry, machine),
        machine_(machine),
        findings_(rules.path),
        missing_gpus_(machine),
        matcher_(rules, blueprint.class_bases, findings_),
        default_device_(default_device(registry, machine)) {
    plan_.blueprint = &blueprint;
    plan_.registry = &registry;
    for (const Rule& rule : rules.rules) {
      rules_.push_back(
          resolve(rule, operators_, blueprint.class_aliases, missing_gpus_, findings_));
    }
  }

  PlanResult run() {
    visit(plan_.blueprint->root, nullptr, nullptr);
    matcher_.report_unused();
    check_transfer_map();
    apply_prefill_threshold(plan_, findings_);
    settle_deferral(plan_, findings_);
    check_out_devices(plan_, findings_);
    missing_gpus_.report(findings_);
    return {.plan = std::move(plan_), .findings = findings_.take()};
  }

 private:
  // `parent` points to a copy, because the vector of placements grows. `stopped_by` is the
  // ancestor's rule with `recursive: false`.
  void visit(const ModuleSpec& module, const Placement* parent, const Rule* stopped_by) {
    Placement placement;
    placement.module = &module;
    for (const WeightSpec& weight : module.weights)
      placement.weight_bytes += weight.bytes();
    if (const auto winner = matcher_.match(module, stopped_by)) {
      const ResolvedRule& rule = rules_[*winner];
      const bool is_for_others =
          ops::is_vision(module.role) && !places_vision(rule, module, operators_, default_device_);
      placement.rule = is_for_others ? nullptr : rule.rule;
      if (is_for_others) {
        place_default(placement, nullptr, 0);
      } else if (rule.usable) {
        place(placement, rule);
      }
      if (!rule.rule->recursive) stopped_by = rule.rule;
    } else {
      const bool inherits = stopped_by != nullptr || ops::is_cache(module.role);
      place_default(placement, inherits ? parent : nullptr,
                    stopped_by == nullptr ? 0 : stopped_by->line);
    }
    if (ops::is_cache(module.role) && parent != nullptr) check_cache(placement, *parent);
    if (module.role == Role::Compressor && parent != nullptr) check_compressor(placement, *parent);
    plan_.placements.push_back(placement);
    for (const ModuleSpec& child : module.children)
      visit(child, &placement, stopped_by);
  }

  // Default operators, on the devices of `like` or (null) on the default device.
  void place_default(Placement& placement, const Placement* like, int line) {
    const ModuleSpec& module = *placement.module;
    const Device fallback = ops::is_vision(module.role)
                                ? vision_device(module, operators_, default_device_)
                                : default_device_;
    const Device decode = like == nullptr ? fallback : like->decode.device();
    placement.out_device = decode;
    placement.decode.place_whole(decode);
    placement.prefill.place_whole(like == nullptr ? decode : like->prefill.device());
    placement.decode.op = default_operator(module, decode, line);
    placement.prefill.op = default_operator(module, placement.prefill.device(), line);
    place_host(placement);
    check_weights(placement, line);
  }

  void place(Placement& placement, const ResolvedRule& rule) {
    const ModuleSpec& module = *placement.module;
    if (rule.role && !can_replace(*rule.role, module)) {
      findings_.error(rule.rule->class_line,
                      str(rule.rule->replace_class, " replaces ", ops::name(*rule.role),
                          ", the module is ", ops::name(module.role), " (", module.class_name, ")"),
                      &module, "replaces another role");
      return;
    }
    placement.decode.place_whole(
        rule.decode.device.value_or(device_of(rule.decode.op, default_device_)));
    placement.decode.op = pick(module, rule.decode, placement.decode.device(), "generate");
    place_prefill(placement, rule);
    place_host(placement);
    placement.out_device = rule.out_device.value_or(placement.decode.device());
    placement.kwargs = rule.kwargs;
    check_weights(placement, rule.decode.line);
    check_kwargs(placement, *rule.rule, findings_);
    place_gpu_experts(placement);
    // A name may imply a GPU (KLinearMarlin) that no kwarg of the rule names.
    for (const PhasePlacement* phase : {&placement.decode, &placement.prefill})
      missing_gpus_.add(*rule.rule, rule.decode.line, phase->device());
    add_transfer_map(module, rule);
  }

  void place_prefill(Placement& placement, const ResolvedRule& rule) {
    PhaseRequest prefill = rule.prefill;
    if (prefill.op.none) {
      placement.prefill = placement.decode;
      return;
    }
    placement.prefill.place_whole(
        prefill.device.value_or(device_of(prefill.op, placement.decode.device())));
    // Without a prefill_op, prefill runs the decode operator if it supports the prefill device.
    const auto type = rule.decode.op.device_type();
    const bool fits = !type || *type == placement.prefill.device().type;
    if (prefill.op.is_default() && !rule.decode.op.none && fits) {
      prefill.op = rule.decode.op;
      prefill.line = rule.decode.line;
    }
    const bool same = placement.prefill.device().type == placement.decode.device().type &&
                      prefill.op == rule.decode.op;
    placement.prefill.op =
        same ? placement.decode.op
             : pick(*placement.module, prefill, placement.prefill.device(), "prefill");
  }

  // Experts that decode on the CPU and prefill on a GPU stay in host memory.
  static void place_host(Placement& placement) {
    const bool is_hybrid = placement.module->role == Role::Experts &&
                           placement.decode.device() == kCpu && placement.prefill.device() != kCpu;
    placement.host_op = is_hybrid ? placement.decode.op : nullptr;
  }

  // The device an operator name implies (KExpertsCPU: the CPU), else `fallback`.
  Device device_of(const OpRequest& op, Device fallback) const {
    const auto type = op.device_type();
    return type && *type != fallback.type ? Device{.type = *type, .index = 0} : fallback;
  }

  // `phase_name` is the prefix of the YAML keys: "generate" or "prefill".
  const OperatorInfo* pick(const ModuleSpec& module,
                           const PhaseRequest& phase,
                           Device device,
                           std::string_view phase_name) {
    const OpRequest& op = phase.op;
    if (op.none) {
      findings_.error(phase.line,
                      str(phase_name, "_op: None leaves the module without an operator"), &module);
      return nullptr;
    }
    if (op.is_default()) return default_operator(module, device, phase.line);
    const std::string_view word = op.named != nullptr ? op.named->name : op.alias->name;
    const Role role = op.named != nullptr ? op.named->role : op.alias->role;
    if (!can_replace(role, module)) {
      findings_.error(phase.line,
                      str(word, " is an operator for ", ops::name(role), ", the module is ",
                          ops::name(module.role), " (", module.class_name, ")"),
                      &module, str("operator of another role: ", word));
      return nullptr;
    }
    const auto type = op.device_type();
    if (type && *type != device.type) {
      findings_.error(phase.line,
                      str(word, " runs on ", type_name(*type), ", ", phase_name, "_device is ",
                          to_string(device)),
                      &module);
      return nullptr;
    }
    // A linear operator named for a router selects the router's default operator.
    if (op.named == nullptr || role != module.role) {
      return default_operator(module, device, phase.line);
    }
    if (op.named->fits && !op.named->fits(module.params)) {
      findings_.error(phase.line, str(word, " does not support this kind of ", ops::name(role)),
                      &module);
    }
    return op.named;
  }

  const OperatorInfo* default_operator(const ModuleSpec& module, Device device, int line) {
    const OperatorInfo* op = operators_.default_for(module, device);
    // A GPU that the machine lacks is reported once, by MissingGpus.
    const bool is_missing_gpu = !machine_.has(device);
    const bool is_planned_gpu = machine_.plan_only && device.type == DeviceType::Cuda &&
                                std::holds_alternative<ops::NoParams>(module.params);
    if (op == nullptr && !is_structural(module.role) && !is_missing_gpu && !is_planned_gpu) {
      findings_.error(line,
                      str("no operator for role ", ops::name(module.role), " on ",
                          type_name(device.type), " in this build (available: ",
                          operator_list(operators_.registry().of_role(module.role)), ")"),
                      &module, str("no operator on ", type_name(device.type)));
    }
    return op;
  }

  // Both phases share one KV cache, so attention must run on its device in both. The kernels of a
  // GPU read the blocks of its own cache operator.
  void check_cache(const Placement& cache, const Placement& attention) {
    const std::string_view parent = ops::name(attention.module->role);  // or an indexer
    const Rule* rule = cache.rule != nullptr ? cache.rule : attention.rule;
    const int line = rule == nullptr ? 0 : rule->line;
    const Device there = cache.decode.device();
    for (const Device device : {attention.decode.device(), attention.prefill.device()}) {
      if (device == there) continue;
      findings_.error(
          line,
          str(cache.module->role == Role::KvCache ? "the KV cache" : "the state cache", " is on ",
              to_string(there), " but its ", parent, " runs on ", to_string(device)),
          attention.module);
      return;
    }
    if (cache.module->role == Role::KvCache && there != kCpu &&
        attention.is_native_on(there, ops::Phase::Decode) &&
        !cache.is_native_on(there, ops::Phase::Decode)) {
      findings_.error(line, str(parent, " on a GPU needs the KV cache operator cuda.kv_cache"),
                      attention.module);
    }
  }

  // Attention reads the entries in its compressor's cache.
  void check_compressor(const Placement& compressor, const Placement& attention) {
    for (const auto phase : {&Placement::decode, &Placement::prefill}) {
      const Device there = (compressor.*phase).device();
      const Device device = (attention.*phase).device();
      if (device == there) continue;
      const Rule* rule = compressor.rule != nullptr ? compressor.rule : attention.rule;
      findings_.error(rule == nullptr ? 0 : rule->line,
                      str("the compressor is on ", to_string(there), " but its attention runs on ",
                          to_string(device)),
                      attention.module);
      return;
    }
  }

  void check_weights(const Placement& placement, int line) {
    check_weights(placement, placement.decode.op, line);
    if (placement.prefill.op != placement.decode.op) {
      check_weights(placement, placement.prefill.op, line);
    }
  }

  void check_weights(const Placement& placement, const OperatorInfo* op, int line) {
    if (op == nullptr || !op->accepts) return;
    for (const WeightSpec& weight : placement.module->weights) {
      if (is_bias(weight) || is_id_table(weight) || op->accepts(weight.dtype)) continue;
      findings_.error(line,
                      str(op->name, " does not support ", graft::name(weight.dtype), " weights"),
                      placement.module);
      return;
    }
  }

  void add_transfer_map(const ModuleSpec& module, const ResolvedRule& rule) {
    if (rule.transfer_map.empty()) return;
    const int line = rule.rule->line_of("transfer_map");
    if (module.role != Role::Model) {
      findings_.error(
          line, str("transfer_map is a kwarg of model, the module is ", ops::name(module.role)),
          &module);
      return;
    }
    for (const auto& [layer, device] : rule.transfer_map) {
      if (layer >= plan_.blueprint->num_layers) {
        findings_.warning(line, str("transfer_map names layer ", layer, ", the model has ",
                                    plan_.blueprint->num_layers, " layers"));
      } else {
        plan_.transfer_map.insert_or_assign(layer, device);
      }
    }
    transfer_map_line_ = line;
  }

  // The transfer map repeats what the rules of the layers say: warn when they disagree.
  void check_transfer_map() {
    for (const Placement& placement : plan_.placements) {
      const ModuleSpec& module = *placement.module;
      const auto next = plan_.transfer_map.upper_bound(module.layer);
      if (module.role != Role::Attention || next == plan_.transfer_map.begin()) continue;
      const Device device = std::prev(next)->second;
      if (device != placement.decode.device()) {
        findings_.warning(transfer_map_line_,
                          str("transfer_map moves the hidden states to ", to_string(device),
                              " but attention runs on ", to_string(placement.decode.device())),
                          &module);
      }
    }
  }

  PlannedOperators operators_;
  const Machine& machine_;
  Collector findings_;
  MissingGpus missing_gpus_;
  Matcher matcher_;
  Device default_device_;
  std::vector<ResolvedRule> rules_;
  Plan plan_;
  int transfer_map_line_ = 0;
};

}  // namespace

const PhasePlacement& Placement::running(ops::Phase phase) const {
  return ops::is_cache(module->role) ? decode : of(phase);
}

bool Placement::absorbs(const ModuleSpec& child) const {
  return std::ranges::all_of(std::array{ops::Phase::Decode, ops::Phase::Prefill}, [&](auto phase) {
    const ops::OperatorInfo* op = running(phase).op;
    return op != nullptr && std::ranges::find(op->absorbed_children, child.last_name()) !=
                                op->absorbed_children.end();
  });
}

bool Placement::is_native_on(Device device, ops::Phase phase) const {
  const PhasePlacement& placed = running(phase);
  return placed.device() == device && (placed.op == nullptr || placed.op->is_native);
}

const Placement& Plan::at(std::string_view module) const {
  const auto found =
      std::find_if(placements.begin(), placements.end(),
                   [&](const Placement& placement) { return placement.module->name == module; });
  GRAFT_CHECK(found != placements.end(), "no module ", module, " in the plan");
  return *found;
}

Device layer_device(const Plan& plan, std::int64_t layer, ops::Phase phase) {
  const auto next = plan.transfer_map.upper_bound(layer);
  if (next != plan.transfer_map.begin()) return std::prev(next)->second;
  return plan.at(str("model.layers.", layer, ".input_layernorm")).running(phase).device();
}

Device default_device(const ops::Registry& registry, const Machine& machine) {
  bool has_cuda = machine.plan_only;
  for (std::size_t i = 0; i < ops::kRoleNames.size(); ++i) {
    const auto operators = registry.of_role(static_cast<Role>(i));
    has_cuda = has_cuda || std::any_of(operators.begin(), operators.end(), [](const auto* op) {
                 return op->device == DeviceType::Cuda;
               });
  }
  return machine.num_gpus > 0 && has_cuda ? Device{.type = DeviceType::Cuda, .index = 0} : kCpu;
}

PlanResult make_plan(const Blueprint& blueprint,
                     const RuleFile& rules,
                     const ops::Registry& registry,
                     const Machine& machine) {
  return Planner(blueprint, rules, registry, machine).run();
}

}  // namespace graft::plan
