// The operators of this build and of its loaded plugins, by name. A plan selects one per module.
// Operators are registered by explicit calls (cpu/register.cpp), not by static initializers.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base/check.h"
#include "graft/ops/kwargs.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"
#include "graft/ops/role.h"
#include "graft/tensor/device.h"

namespace graft::ops {

// A child of a module, not owned. `is_native`: see primitives.h.
template <class Op>
struct Child {
  Op* op = nullptr;  // null: the module has no child of that name
  bool is_native = false;

  explicit operator bool() const { return op != nullptr; }
  Op* operator->() const { return op; }
  Op& operator*() const { return *op; }
};

class Primitives;

// The input of an operator's factory. Children are the operators of the module's child modules;
// they are built before their parent, which does not own them.
struct BuildContext {
  std::string module;  // "model.layers.3.self_attn.q_proj"
  const Params* params = nullptr;
  Device device;
  const Kwargs* kwargs = nullptr;
  Primitives* primitives = nullptr;  // of `device`
  // The operator on the CPU that holds the module's weights, loaded first, when this one computes
  // with them on a GPU. Null: this operator loads its weights.
  Operator* host_op = nullptr;
  // The operator of a child by the last component of its name ("q_proj"); empty when missing.
  std::function<Child<Operator>(std::string_view child)> child;

  template <class P>
  const P& params_as() const {
    return std::get<P>(*params);
  }
  // Aborts when the child is missing or has another role: the blueprint guarantees it.
  template <class Op>
  Child<Op> child_as(std::string_view name) const;
  // Empty when the child is missing or has another role.
  template <class Op>
  Child<Op> optional_child(std::string_view name) const;
  // The value of a declared kwarg, or its fallback. Throws Error when the value is not one of the
  // declaration; the plan has checked those of rules.
  std::string word_kwarg(const Kwarg& kwarg) const;
  bool bool_kwarg(const Kwarg& kwarg) const;
  std::int64_t int_kwarg(const Kwarg& kwarg) const;
  double double_kwarg(const Kwarg& kwarg) const;
  bool has_kwarg(std::string_view key) const;  // whether the rule sets it
  // For plugins, which declare keys only: the value as the type that the plugin reads it as, or
  // `fallback`. Throws Error when the text does not parse.
  std::string text_kwarg(std::string_view key, std::string_view fallback) const;
  bool bool_kwarg(std::string_view key, bool fallback) const;
  std::int64_t int_kwarg(std::string_view key, std::int64_t fallback) const;
  double double_kwarg(std::string_view key, double fallback) const;
};

struct OperatorInfo {
  std::string name = {};  // "cpu.linear"
  Role role = Role::Linear;
  DeviceType device = DeviceType::Cpu;
  std::string summary = {};                 // one line for tables
  std::vector<Kwarg> kwargs = {};           // accepted keys beyond device and op names
  std::function<bool(DType)> accepts = {};  // supported weight types; empty: all
  // Which modules of the role it supports, for example GQA or MLA attention; empty: all.
  std::function<bool(const Params&)> fits = {};
  // Children (last component of the name) whose weights the operator loads itself. They are not
  // called, so they get no operator, which would hold a second copy.
  std::vector<std::string_view> absorbed_children = {};
  // Fused primitives of its device may read its weights: they cast it to its concrete class, so
  // only operators of the library that has the primitives may set this.
  bool is_native = false;
  std::function<std::unique_ptr<Operator>(const BuildContext&)> make = {};

  const Kwarg* find_kwarg(std::string_view key) const;  // null when it does not accept the key
  bool supports(const Params& params) const { return !fits || fits(params); }
};

class DeviceContext;
struct Fusion;

class Registry {
 public:
  using MakeDeviceContext = std::function<std::unique_ptr<DeviceContext>(Device)>;

  // Throws Error when an operator of that name exists (two plugins may clash).
  void add(OperatorInfo info);
  const OperatorInfo* find(std::string_view name) const;  // null when not found
  std::vector<const OperatorInfo*> all() const;           // in order of registration
  // The operators of a role, in order of registration.
  std::vector<const OperatorInfo*> of_role(Role role) const;
  // The first operator of the role on the device that supports the module; null when none does.
  const OperatorInfo* default_for(Role role, DeviceType device, const Params& params) const;

  // Registers the pass context and the primitives of a device type.
  void add_device(DeviceType type, MakeDeviceContext make, std::shared_ptr<Primitives> primitives);
  std::unique_ptr<DeviceContext> make_device_context(Device where) const;
  Primitives& primitives(DeviceType type) const;
  // The fusions of the device's primitives. Without libgraft_cuda.so, those that GPUs have with it:
  // plans for GPUs can be made on machines without one.
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

// The operators that are compiled in.
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
