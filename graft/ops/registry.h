// Operators by name: what this build (and the plugins it has loaded) can put in the place of a
// module. Filled by explicit calls (cpu/register.cpp): what a build contains is what they say.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"
#include "graft/ops/role.h"
#include "graft/tensor/device.h"

namespace graft::ops {

// kwargs of a rule as the operator sees them: text, as YAML spells scalars.
using Kwargs = std::map<std::string, std::string, std::less<>>;

// What a factory works from. Children are the operators of the module's child modules, built before
// their parent; the parent does not own them.
struct BuildContext {
  std::string module;  // "model.layers.3.self_attn.q_proj"
  const Params* params = nullptr;
  Device device;
  const Kwargs* kwargs = nullptr;
  // The operator of a child by its last name ("q_proj"), null when there is none.
  std::function<Operator*(std::string_view child)> child;

  template <class P>
  const P& params_as() const {
    return std::get<P>(*params);
  }
  // Aborts (our bug) when the child is missing or of another role.
  template <class Op>
  Op& child_as(std::string_view name) const;
  template <class Op>
  Op* optional_child(std::string_view name) const {
    return child ? dynamic_cast<Op*>(child(name)) : nullptr;
  }
  // A kwarg, `otherwise` when the rule does not give it. Throws Error when its text is not of that
  // kind; booleans are spelled as YAML or Python do.
  std::string text_kwarg(std::string_view key, std::string_view otherwise) const;
  bool bool_kwarg(std::string_view key, bool otherwise) const;
  std::int64_t int_kwarg(std::string_view key, std::int64_t otherwise) const;
  double double_kwarg(std::string_view key, double otherwise) const;
};

struct OperatorInfo {
  std::string name = {};  // "cpu.linear"
  Role role = Role::Linear;
  DeviceType device = DeviceType::Cpu;
  std::string summary = {};                 // one line for tables
  std::vector<std::string> kwargs = {};     // the keys it understands beyond device and op names
  std::function<bool(DType)> accepts = {};  // weight types it can load; empty: all
  // Which modules of the role it computes (plain or latent attention); empty: all.
  std::function<bool(const Params&)> fits = {};
  std::function<std::unique_ptr<Operator>(const BuildContext&)> make = {};
};

class DeviceState;

class Registry {
 public:
  using MakeDeviceState = std::function<std::unique_ptr<DeviceState>(Device)>;

  // Throws Error when the name is taken (two plugins that clash).
  void add(OperatorInfo info);
  const OperatorInfo* find(std::string_view name) const;  // null when there is none
  std::vector<const OperatorInfo*> all() const;           // in order of registration
  // Of one role, in order of registration: the first that fits a module and a device is the default
  // there, null when there is none.
  std::vector<const OperatorInfo*> of_role(Role role) const;
  const OperatorInfo* default_for(Role role, DeviceType device, const Params& params) const;

  // What passes need on devices of a type, beside operators.
  void add_device_states(DeviceType type, MakeDeviceState make);
  std::unique_ptr<DeviceState> make_device_state(Device device) const;

 private:
  std::vector<std::unique_ptr<OperatorInfo>> operators_;
  std::map<DeviceType, MakeDeviceState> device_states_;
};

// Everything that is compiled in.

Registry builtin_operators();

template <class Op>
Op& BuildContext::child_as(std::string_view name) const {
  auto* op = optional_child<Op>(name);
  GRAFT_CHECK(op != nullptr, module, " needs its child ", name);
  return *op;
}

}  // namespace graft::ops
