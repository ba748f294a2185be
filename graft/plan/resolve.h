// A rule's replace part read against what this build and the machine have: words looked up, devices
// checked. What is wrong whatever the rule matches is said here, once.

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

// Which operator a rule asks for: the first of these that is set; without any the default of the
// module's role.
struct OpRequest {
  bool none = false;                         // `None`
  const ops::OperatorInfo* named = nullptr;  // "cpu.linear"
  const OpAlias* alias = nullptr;            // "KLinearMarlin"

  bool operator==(const OpRequest&) const = default;
  bool is_default() const { return !none && named == nullptr && alias == nullptr; }
  // Where it can run, nothing: anywhere.
  std::optional<DeviceType> device_type() const;
};

struct PhaseRequest {
  std::optional<Device> device;
  OpRequest op;
  int line = 0;  // of the op's word, for complaints
};

struct ResolvedRule {
  const Rule* rule = nullptr;
  bool usable = true;             // false: an error was reported, modules it takes are not placed
  std::optional<ops::Role> role;  // of modules its class can replace; nothing: any
  PhaseRequest generate;
  PhaseRequest prefill;
  std::optional<Device> out_device;
  std::map<std::int64_t, Device> transfer_map;
  ops::Kwargs kwargs;  // everything but devices, op names and the transfer map
};

ResolvedRule resolve(const Rule& rule,
                     const ops::Registry& registry,
                     const Machine& machine,
                     std::span<const ClassAlias> class_aliases,
                     Collector& findings);

// "cpu.linear, cuda.linear" or "none".
std::string operator_list(const std::vector<const ops::OperatorInfo*>& operators);

}  // namespace graft::plan
