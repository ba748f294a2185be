// The words of rule files that stand for operators: KTransformers' replacement classes and op
// names, so that its files work as they are. Facts in tables; what they mean here is resolve.h's
// business.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graft/ops/role.h"
#include "graft/tensor/device.h"

namespace graft::plan {

// Hardware a name was written for.
enum class Platform : std::uint8_t { Any, Npu, Xpu };

// A class of KTransformers that replaces a module: here, the default operator of its role on the
// device asked for.
struct ClassAlias {
  std::string_view name;  // last component of the dotted name
  ops::Role role;
  Platform platform = Platform::Any;
};

// An operator by KTransformers' name. Which format the weights have is the checkpoint's business,
// so what is left of "Marlin" or "FP8" is the role and the device.
struct OpAlias {
  std::string_view name;
  ops::Role role;
  std::optional<DeviceType> device;  // the only one it runs on
  Platform platform = Platform::Any;
};

// Null for other names. Module paths (`ktransformers.operators.linear.`) do not matter.
const ClassAlias* find_class_alias(std::string_view name);
const OpAlias* find_op_alias(std::string_view name);

// The op names of a role: "KLinearMarlin, VLinearMarlin, …".
std::string op_alias_list(ops::Role role);

// Whether it is a `backend` of KTransformers' CPU experts.
bool is_backend(std::string_view name);
std::string backend_list();

// A device of somebody else ("npu", "xpu:0"), for which this program has no backend.
bool is_foreign_device(std::string_view name);
std::string_view name(Platform platform);

}  // namespace graft::plan
