// KTransformers' names in rule files (replacement classes and op names), so that its files work
// unchanged. resolve.h gives them their meaning.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "graft/ops/role.h"
#include "graft/tensor/device.h"

namespace graft::plan {

// The hardware a KTransformers class is for.
enum class Platform : std::uint8_t { Any, Npu, Xpu };

// A KTransformers class that replaces a module. Here it selects the default operator of its role on
// the rule's device.
struct ClassAlias {
  std::string_view name;  // last component of the dotted name
  ops::Role role;
  Platform platform = Platform::Any;
};

// A KTransformers operator. The checkpoint determines the weights' format, so of "Marlin" or "FP8"
// only the role and the device matter.
struct OpAlias {
  std::string_view name;
  ops::Role role;
  std::optional<DeviceType> device;  // nullopt: any
  Platform platform = Platform::Any;
};

// "KLinearMarlin" of "ktransformers.operators.linear.KLinearMarlin".
std::string_view last_component(std::string_view dotted);

// Null for other names. Module paths (`ktransformers.operators.linear.`) are ignored. `more` are
// the classes of the model families (Blueprint::class_aliases).
const ClassAlias* find_class_alias(std::string_view name, std::span<const ClassAlias> more = {});
const OpAlias* find_op_alias(std::string_view name);

// The op names of a role: "KLinearMarlin, VLinearMarlin, …".
std::string op_alias_list(ops::Role role);

// Whether it is a `backend` of KTransformers' CPU experts.
bool is_backend(std::string_view name);
std::string backend_list();

// A device that KTransformers supports and this program does not ("npu", "xpu:0").
bool is_foreign_device(std::string_view name);
std::string_view name(Platform platform);

}  // namespace graft::plan
