// Resolves the `replace` part of a rule against this build and machine: looks up names and checks
// devices. Errors that do not depend on the matched module are reported here, once per rule.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/ops/registry.h"
#include "graft/plan/aliases.h"
#include "graft/plan/collector.h"
#include "graft/plan/plan.h"
#include "graft/plan/rules.h"

namespace graft::plan {

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
                     const ops::Registry& registry,
                     const Machine& machine,
                     std::span<const ClassAlias> class_aliases,
                     Collector& findings);

// "cpu.linear, cuda.linear" or "none".
std::string operator_list(const std::vector<const ops::OperatorInfo*>& operators);

}  // namespace graft::plan
