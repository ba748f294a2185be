// Fusions: operations that a device runs for several children of a module in one kernel or one
// parallel loop. A device lists its fusions (Primitives::fusions()), so that a plan can report
// those that are lost when a child is replaced. The list of GPUs is compiled in: plans do not need
// libgraft_cuda.so.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/params.h"
#include "graft/ops/registry.h"
#include "graft/ops/role.h"
#include "graft/tensor/dtype.h"

namespace graft::ops {

// Only native children are fused (primitives.h). The device calls forward() of the others, and
// fuses the remaining ones where its kernel supports that.
struct Fusion {
  // Whether the kernel supports a linear child, by its weight type and the kwargs of its rule.
  using Supports = bool (*)(const LinearParams& params, DType dtype, const Kwargs& kwargs);

  Role parent = Role::Attention;  // role of the module whose children are fused
  std::string_view name;          // for reports; % is replaced by the children: "% in one launch"
  // Relative to the parent: "q_proj", "self_attn.q_proj". Children that a model does not have are
  // skipped.
  std::vector<std::string_view> children;
  Supports supports = nullptr;   // null: supports every child
  std::size_t min_children = 2;  // fewer are not fused
  // The child that consumes the fused result; the fusion requires it on the same device. Empty:
  // none.
  std::string_view consumer = {};
  bool needs_equal_types = false;  // only children of equal weight type are fused
  bool is_decode_only = false;
  // Fuses the pending residual add of the previous layer (Hidden::has_pending_add), so the first
  // layer on a device does not have this fusion.
  bool needs_pending_add = false;
  bool is_silu_only = false;           // not for MLPs with another function of the gate
  std::string_view only_with = {};     // only in modules with this child; empty: in all
  std::string_view only_without = {};  // not in modules with this child; empty: in all

  // The name with the fused children of one module.
  std::string name_of(std::span<const std::string_view> joined) const;
};

// The fusions of GPUs (cuda/primitives.cpp, cuda/rms_norm.cpp).
std::span<const Fusion> cuda_fusions();
// Whether GPUs multiply weights of the type from panels (kernels::cuda::has_panels). Older GPUs
// have int8 kernels for most of them.
bool has_cuda_panels(DType dtype);

}  // namespace graft::ops
