// What runs where: every module of a blueprint with its operators and devices, as resolved from the
// rules. Made without reading weights; needs no GPU.

#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "graft/ops/pass.h"
#include "graft/ops/registry.h"
#include "graft/plan/blueprint.h"
#include "graft/plan/checks/finding.h"
#include "graft/plan/rules/rules.h"
#include "graft/tensor/device.h"

namespace graft::plan {

// A contiguous part of a module: some of its experts, or of the rows or columns of its matrices.
struct Part {
  enum class Axis : std::uint8_t { Whole, Experts, Rows, Columns };
  Axis axis = Axis::Whole;
  std::int64_t begin = 0;  // [begin, end) along the axis
  std::int64_t end = 0;
  // Above 0: of this many, end - begin belong to the part, and which ones changes while serving.
  std::int64_t total = 0;

  bool operator==(const Part&) const = default;
};

// The part of a module that one device holds and computes.
struct Share {
  Device device;
  Part part = {};
  double fraction = 1.0;  // of the module's work; all shares add up to 1
  // Of the module's weights, in the memory of the device. More than `fraction` on the CPU when a
  // GPU keeps copies of some experts.
  double held = fraction;

  bool operator==(const Share&) const = default;
};

// Where a module runs in one phase.
struct PhasePlacement {
  // Null for containers (model, layer), and for a module that no GPU operator supports when
  // planning for another machine. Without `make` in plans for GPUs that this machine lacks.
  const ops::OperatorInfo* op = nullptr;
  std::vector<Share> shares = {Share{}};  // never empty; the first device gathers the result

  Device device() const { return shares.front().device; }
  bool is_split() const { return shares.size() > 1; }
  void place_whole(Device device) { shares = {Share{.device = device}}; }
};

struct Placement {
  const ModuleSpec* module = nullptr;
  PhasePlacement decode;
  PhasePlacement prefill;  // with `prefill_op: None`, the same as decode
  Device out_device;       // of the result; the decode device unless a rule sets it
  ops::Kwargs kwargs;      // for the operator: without devices, ops and transfer_map
  // The CPU operator that holds the weights when a GPU computes with them: it streams them in
  // prefill, or keeps copies of some experts. Null: every operator holds its own weights.
  const ops::OperatorInfo* host_op = nullptr;
  const Rule* rule = nullptr;    // null: no rule matched, or an ancestor's rule is not recursive
  std::size_t weight_bytes = 0;  // of all shares

  const PhasePlacement& of(ops::Phase phase) const {
    return phase == ops::Phase::Prefill ? prefill : decode;
  }
  // What runs in a phase: prefill writes the KV cache that decode reads, there is one.
  const PhasePlacement& running(ops::Phase phase) const;
  // Whether the operators of both phases load the weights of this child themselves.
  bool absorbs(const ModuleSpec& child) const;
  // Whether fused primitives of `device` may read into the operator (ops/primitives.h). An operator
  // that this build lacks counts as the default one of its device.
  bool is_native_on(Device device, ops::Phase phase) const;
  std::size_t bytes_of(const Share& share) const {
    return static_cast<std::size_t>(std::llround(share.held * static_cast<double>(weight_bytes)));
  }
};

// Points into the blueprint, the rule file and the registry it was made from.
struct Plan {
  const Blueprint* blueprint = nullptr;
  const ops::Registry* registry = nullptr;
  std::vector<Placement> placements;            // in the order of Blueprint::visit
  std::map<std::int64_t, Device> transfer_map;  // layer -> device of the hidden states from it on

  // Aborts for unknown modules.
  const Placement& at(std::string_view module) const;
};

// Containers compute nothing themselves and need no operator.
constexpr bool is_structural(ops::Role role) {
  return role == ops::Role::Model || role == ops::Role::Layer;
}

// The device of a layer's hidden states: from the transfer map of the rules, else that of its first
// norm. Aborts for unknown layers.
Device layer_device(const Plan& plan, std::int64_t layer, ops::Phase phase);

// Tokens from which on a prefill pass streams the experts of the module from host memory to a GPU:
// their decode operator is on the CPU, the prefill operator on the GPU. 0: they are not streamed.
// In order of precedence: stream_from of their rule, per_layer_prefill_intput_threshold of the
// model's rule unless it is 0, the default of the kwarg.
std::int64_t stream_from(const Placement& placement);
// The least value of all modules; 0: none is streamed.
std::int64_t stream_from(const Plan& plan);

// Experts of which a GPU keeps copies while the CPU holds all (kwarg gpu_experts); 0: none, or
// `auto` is not resolved.
std::int64_t gpu_experts(const Placement& placement);
bool has_auto_gpu_experts(const Placement& placement);
// Splits the work between the GPU and the CPU, or (0) places the experts as without copies. Only
// for experts with a host_op.
void set_gpu_experts(Placement& placement, std::int64_t count);

// The devices available to rules.
struct Machine {
  int num_gpus = 0;
  // Plan for another machine: GPU operators that this build lacks are taken from the list that is
  // compiled in (ops/devices/cuda_operators.h). Those plans cannot be run.
  bool plan_only = false;

  bool has(Device device) const { return device == kCpu || device.index < num_gpus; }
};

struct PlanResult {
  Plan plan;
  std::vector<Finding> findings;  // errors and warnings, in order of line

  bool ok() const { return !has_errors(findings); }
};

// The device of modules without a rule: cuda:0, as in KTransformers, if the machine has a GPU and
// this build has CUDA operators (or with `plan_only`), else the CPU.
Device default_device(const ops::Registry& registry, const Machine& machine);

// Resolves rules against the blueprint. Load the plugins of the rule file into the registry first
// (plugins.h). Never throws for errors in rules: they are collected in `findings`, and the plan is
// usable only when ok().
//
// The first rule that matches a module applies. Descendants of a module whose rule has
// `recursive: false` get no rule: they use the default operators on that module's devices. A KV
// cache without a rule is placed with its attention. Every other module without a rule gets its
// role's default operator on the default device; nothing is inherited.
//
// Device precedence for decode: `generate_device`, `device`, the device the named operator implies,
// the default device. For prefill: `prefill_device`, `device`, the operator's, the decode device.
PlanResult make_plan(const Blueprint& blueprint,
                     const RuleFile& rules,
                     const ops::Registry& registry,
                     const Machine& machine);

}  // namespace graft::plan
