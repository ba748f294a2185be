#include "graft/plan/cuda_operators.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace graft::plan {
namespace {

using ops::Role;

struct OperatorRow {
  std::string_view name;
  Role role;
  std::array<std::string_view, 2> kwargs = {};  // empty: none
  bool (*fits)(const ops::Params&) = nullptr;   // null: every module of the role
};

template <class P>
bool has(const ops::Params& params) {
  return std::holds_alternative<P>(params);
}

// In the order of registration: the first operator of a role is its default.
constexpr std::array kOperators = {
    OperatorRow{.name = "cuda.embedding", .role = Role::Embedding},
    OperatorRow{.name = "cuda.rms_norm", .role = Role::Norm},
    OperatorRow{.name = "cuda.linear", .role = Role::Linear, .kwargs = {"precision"}},
    OperatorRow{.name = "cuda.rope", .role = Role::Rope},
    OperatorRow{
        .name = "cuda.kv_cache", .role = Role::KvCache, .kwargs = {"dtype", "block_tokens"}},
    OperatorRow{.name = "cuda.attention",
                .role = Role::Attention,
                .kwargs = {"precision"},
                .fits = has<ops::AttentionParams>},
    OperatorRow{.name = "cuda.mla",
                .role = Role::Attention,
                .kwargs = {"precision"},
                .fits = has<ops::MlaParams>},
    OperatorRow{.name = "cuda.router", .role = Role::Router},
    OperatorRow{.name = "cuda.experts", .role = Role::Experts, .kwargs = {"precision"}},
    OperatorRow{.name = "cuda.mlp", .role = Role::Mlp},
    OperatorRow{.name = "cuda.moe", .role = Role::Moe},
};

}  // namespace

void add_planned_cuda_operators(ops::Registry& registry) {
  for (const OperatorRow& row : kOperators) {
    ops::OperatorInfo info;
    info.name = std::string(row.name);
    info.role = row.role;
    info.device = DeviceType::Cuda;
    info.is_native = true;
    for (const std::string_view key : row.kwargs) {
      if (!key.empty()) info.kwargs.emplace_back(key);
    }
    if (row.fits != nullptr) info.fits = row.fits;
    registry.add(std::move(info));
  }
}

}  // namespace graft::plan
