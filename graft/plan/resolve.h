// Resolves the `replace` part of a rule against this build and machine: looks up names and checks
// devices. Errors that do not depend on the matched module are reported here, once per rule. GPUs
// that the machine lacks are collected in MissingGpus.

#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/checks/collector.h"
#include "graft/plan/checks/missing_gpus.h"
#include "graft/plan/planned_operators.h"
#include "graft/plan/rules/aliases.h"
#include "graft/plan/rules/rules.h"

namespace graft::plan {

// The kwargs that select devices and operators; the others are for the operator.
inline constexpr std::array<std::string_view, 6> kPlacementKeys = {
    "device", "generate_device", "prefill_device", "out_device", "generate_op", "prefill_op"};

// The operator a rule requests. At most one field is set; none means the default of the module's
// role.
struct OpRequest {
  bool none = false;                         // `None`
  const ops::OperatorInfo* named = nullptr;  // "cpu.linear"
  const OpAlias* alias = nullptr;            // "KLinearMarlin"

  bool operator==(const OpRequest&) const = default;
  bool is_default() const { return !none && named == nullptr && alias == nullptr; }
  // The device type the operator requires; null: any.
  std::optional<DeviceType> device_type() const;
};

struct PhaseRequest {
  std::optional<Device> device;
  OpRequest op;
  int line = 0;  // of the op's name, for findings
};

struct ResolvedRule {
  const Rule* rule = nullptr;
  bool usable = true;             // false: an error was reported; its modules stay unplaced
  std::optional<ops::Role> role;  // of the modules its class can replace; null: any
  PhaseRequest decode;
  PhaseRequest prefill;
  std::optional<Device> out_device;
  std::map<std::int64_t, Device> transfer_map;
  ops::Kwargs kwargs;  // without devices, op names and the transfer map
};

ResolvedRule resolve(const Rule& rule,
                     const PlannedOperators& operators,
                     std::span<const ClassAlias> class_aliases,
                     MissingGpus& missing_gpus,
                     Collector& findings);

// "cpu.linear, cuda.linear" or "none".
std::string operator_list(const std::vector<const ops::OperatorInfo*>& operators);

}  // namespace graft::plan
