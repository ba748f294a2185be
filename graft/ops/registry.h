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

// A child of a module, not owned. `is_native`: see primitives.h.
template <class Op>
struct Child {
  Op* op = nullptr;  // null: the module has no such child
  bool is_native = false;

  explicit operator bool() const { return op != nullptr; }
  Op* operator->() const { return op; }
  Op& operator*() const { return *op; }
};

class Primitives;

// What a factory works from. Children are the operators of the module's child modules, built before
// their parent; the parent does not own them.
struct BuildContext {
  std::string module;  // "model.layers.3.self_attn.q_proj"
  const Params* params = nullptr;
  Device device;
  const Kwargs* kwargs = nullptr;
  Primitives* primitives = nullptr;  // of the device
  // The operator of a child by its last name ("q_proj"); empty when there is none.
  std::function<Child<Operator>(std::string_view child)> child;

  template <class P>
  const P& params_as() const {
    return std::get<P>(*params);
  }
  // Aborts (our bug) when the child is missing or of another role.
  template <class Op>
  Child<Op> child_as(std::string_view name) const;
  template <class Op>
  Child<Op> optional_child(std::string_view name) const;
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
  // Fused primitives of its device may read its weights. Only for operators of the same library as
  // the device's primitives, which rely on the class behind the role.
  bool is_native = false;
  std::function<std::unique_ptr<Operator>(const BuildContext&)> make = {};
};

class DeviceContext;
struct Fusion;

class Registry {
 public:
  using MakeDeviceContext = std::function<std::unique_ptr<DeviceContext>(Device)>;

  // Throws Error when the name is taken (two plugins that clash).
  void add(OperatorInfo info);
  const OperatorInfo* find(std::string_view name) const;  // null when there is none
  std::vector<const OperatorInfo*> all() const;           // in order of registration
  // Of one role, in order of registration: the first that fits a module and a device is the default
  // there, null when there is none.
  std::vector<const OperatorInfo*> of_role(Role role) const;
  const OperatorInfo* default_for(Role role, DeviceType device, const Params& params) const;

  // What passes and modules need on devices of a type, beside operators.
  void add_device(DeviceType type, MakeDeviceContext make, std::shared_ptr<Primitives> primitives);
  std::unique_ptr<DeviceContext> make_device_context(Device where) const;
  Primitives& primitives(DeviceType type) const;
  // Of the device's primitives; without libgraft_cuda.so those that GPUs have with it.
  std::span<const Fusion> fusions(DeviceType type) const;

 private:
  std::vector<std::unique_ptr<OperatorInfo>> operators_;
  struct DeviceEntry {
    MakeDeviceContext make_context;
    std::shared_ptr<Primitives> primitives;
  };
  const DeviceEntry& device(DeviceType type) const;
  std::map<DeviceType, DeviceEntry> devices_;
};

// Everything that is compiled in.
Registry builtin_operators();

template <class Op>
Child<Op> BuildContext::optional_child(std::string_view name) const {
  if (!child) return {};
  const Child<Operator> found = child(name);
  return {.op = dynamic_cast<Op*>(found.op), .is_native = found.is_native};
}

template <class Op>
Child<Op> BuildContext::child_as(std::string_view name) const {
  const Child<Op> found = optional_child<Op>(name);
  GRAFT_CHECK(found, module, " needs its child ", name);
  return found;
}

}  // namespace graft::ops
