// The kinds of modules in a model. Every role has an interface in this folder; rules select the
// operator that implements it.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace graft::ops {

enum class Role : std::uint8_t {
  Model,
  Layer,
  Embedding,
  Norm,
  Linear,
  Rope,
  Attention,
  Indexer,
  Compressor,
  HyperConnection,
  KvCache,
  StateCache,
  Mlp,
  Moe,
  Router,
  Experts,
  VisionTower,
  Projector,
};

// The spelling in rule files and tables, in the order of Role.
inline constexpr std::array<std::string_view, 18> kRoleNames = {
    "model",        "layer",
    "embedding",    "norm",
    "linear",       "rope",
    "attention",    "indexer",
    "compressor",   "hyper_connection",
    "kv_cache",     "state_cache",
    "mlp",          "moe",
    "router",       "experts",
    "vision_tower", "multi_modal_projector"};

// Caches belong to one module and hold what earlier passes computed.
constexpr bool is_cache(Role role) {
  return role == Role::KvCache || role == Role::StateCache;
}

// Images: computed before the passes of the text model, on the CPU where the device of a rule for
// all modules has no operator for them.
constexpr bool is_vision(Role role) {
  return role == Role::VisionTower || role == Role::Projector;
}

constexpr std::string_view name(Role role) {
  return kRoleNames[static_cast<std::size_t>(role)];
}

constexpr std::optional<Role> role_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kRoleNames.size(); ++i) {
    if (kRoleNames[i] == text) return static_cast<Role>(i);
  }
  return std::nullopt;
}

}  // namespace graft::ops
