#include "graft/plan/rules/aliases.h"

#include <algorithm>
#include <array>

namespace graft::plan {
namespace {

using ops::Role;

// clang-format off
// Classes of every family, and of families that only KTransformers has.
constexpr std::array kClasses = {
    ClassAlias{"KTransformersLinear",             Role::Linear},
    ClassAlias{"KTransformersLinearW8A8A2",       Role::Linear,    Platform::Npu},

    ClassAlias{"KTransformersExperts",            Role::Experts},
    ClassAlias{"KTransformersExpertsV2",          Role::Experts},
    ClassAlias{"KSmallthinkerExperts",            Role::Experts},
    ClassAlias{"KTransformersExpertsW8A8",        Role::Experts,   Platform::Npu},
    ClassAlias{"KExpertsCPUW8A8",                 Role::Experts,   Platform::Npu},

    ClassAlias{"KQwen3NextSparseMoeBlockV2",      Role::Moe},
    ClassAlias{"KSmallthinkerMoeBlock",           Role::Moe},

    ClassAlias{"KMoEGate",                        Role::Router},
    ClassAlias{"KMoEGateIPEXLLM",                 Role::Router,    Platform::Xpu},

    ClassAlias{"flashinfer_attn",                 Role::Attention},
    ClassAlias{"KSmallthinkerAttention",          Role::Attention},
    ClassAlias{"KQwen3NextAttention",             Role::Attention},
    ClassAlias{"KQwen3NextGatedDeltaNet",         Role::Attention},

    ClassAlias{"RotaryEmbedding",                 Role::Rope},
    ClassAlias{"RotaryEmbeddingV2",               Role::Rope},
    ClassAlias{"RotaryEmbeddingV3",               Role::Rope},
    ClassAlias{"RotaryEmbeddingV4",               Role::Rope},
    ClassAlias{"YarnRotaryEmbedding",             Role::Rope},
    ClassAlias{"YarnRotaryEmbeddingV3",           Role::Rope},
    ClassAlias{"KSmallthinkerRotaryEmbedding",    Role::Rope},

    ClassAlias{"RMSNorm",                         Role::Norm},
    ClassAlias{"KQwen3NextRMSNorm",               Role::Norm},
    ClassAlias{"KSmallthinkerRMSNorm",            Role::Norm},

    ClassAlias{"KSmallthinkerDenseMlpBlock",      Role::Mlp},

};

constexpr std::array kOps = {
    OpAlias{"KLinearMarlin",      Role::Linear,  DeviceType::Cuda},
    OpAlias{"VLinearMarlin",      Role::Linear,  DeviceType::Cuda},
    OpAlias{"KLinearFP8",         Role::Linear,  DeviceType::Cuda},
    OpAlias{"KLinearQ8",          Role::Linear,  DeviceType::Cuda},
    OpAlias{"KLinearTorch",       Role::Linear,  std::nullopt},
    OpAlias{"KLinearCPUInfer",    Role::Linear,  DeviceType::Cpu},
    OpAlias{"KLinearIPEXLLM",     Role::Linear,  std::nullopt, Platform::Xpu},
    OpAlias{"KLinearTorchW8A8A2", Role::Linear,  std::nullopt, Platform::Npu},
    OpAlias{"KExpertsCPU",        Role::Experts, DeviceType::Cpu},
    OpAlias{"KExpertsCPUW8A8",    Role::Experts, DeviceType::Cpu},
    OpAlias{"KExpertsMarlin",     Role::Experts, DeviceType::Cuda},
    OpAlias{"KExpertsTorch",      Role::Experts, std::nullopt},
};
// clang-format on

constexpr std::array<std::string_view, 3> kBackends = {"llamafile", "AMXInt8", "AMXBF16"};
constexpr std::array<std::string_view, 6> kForeignDevices = {"npu", "xpu",  "mps",
                                                             "hip", "rocm", "vulkan"};

template <class Table>
const typename Table::value_type* find_name(const Table& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, [](const auto& row) { return row.name; });
  return found == table.end() ? nullptr : &*found;
}

void append(std::string& list, std::string_view word) {
  if (!list.empty()) list += ", ";
  list += word;
}

}  // namespace

std::string_view last_component(std::string_view dotted) {
  return dotted.substr(dotted.rfind('.') + 1);  // npos + 1 is 0
}

const ClassAlias* find_class_alias(std::string_view name, std::span<const ClassAlias> more) {
  const ClassAlias* found = find_name(kClasses, last_component(name));
  return found != nullptr ? found : find_name(more, last_component(name));
}

const OpAlias* find_op_alias(std::string_view name) {
  return find_name(kOps, last_component(name));
}

std::string op_alias_list(Role role) {
  std::string list;
  for (const OpAlias& op : kOps) {
    if (op.role == role && op.platform == Platform::Any) append(list, op.name);
  }
  return list;
}

bool is_backend(std::string_view name) {
  return std::find(kBackends.begin(), kBackends.end(), name) != kBackends.end();
}

std::string backend_list() {
  std::string list;
  for (const std::string_view backend : kBackends)
    append(list, backend);
  return list;
}

bool is_foreign_device(std::string_view name) {
  const std::string_view word = name.substr(0, name.find(':'));
  return std::find(kForeignDevices.begin(), kForeignDevices.end(), word) != kForeignDevices.end();
}

std::string_view name(Platform platform) {
  switch (platform) {
    case Platform::Npu:
      return "npu";
    case Platform::Xpu:
      return "xpu";
    case Platform::Any:
      break;
  }
  return "any";
}

}  // namespace graft::plan
