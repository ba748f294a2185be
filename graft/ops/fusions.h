// What a device computes for several children of a module in one kernel or one parallel loop. A
// device lists the fusions it offers (Primitives::fusions()), so that a plan can say which of them
// a replaced child costs. The list of GPUs is compiled in: plans need no libgraft_cuda.so.

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

// The children must be native (primitives.h). The device calls one that is not, and fuses the
// others where its kernel allows it.
struct Fusion {
  // Whether the kernel takes a linear child, by the type of its matrix and the kwargs of its rule.
  using Takes = bool (*)(const LinearParams& params, DType dtype, const Kwargs& kwargs);

  Role parent = Role::Attention;  // of the module whose children it joins
  std::string_view name;          // for reports; % stands for the children: "% in one launch"
  // Relative to the parent: "q_proj", "self_attn.q_proj". Those that a model lacks are skipped.
  std::vector<std::string_view> children;
  Takes takes = nullptr;         // null: every child
  std::size_t min_children = 2;  // with fewer there is nothing to fuse
  // The child that the fused result is for; on another device it has no use for it. Empty: none.
  std::string_view consumer = {};
  bool needs_equal_types = false;  // of the matrices: it joins those of each type
  bool is_decode_only = false;
  // Joins the add that the previous layer left pending (Hidden::has_pending_add), so that the first
  // layer on a device does not have it.
  bool needs_pending_add = false;

  // The name with the children that it joins in one module.
  std::string name_of(std::span<const std::string_view> joined) const;
};

// Of GPUs (cuda/primitives.cpp, cuda/rms_norm.cpp).
std::span<const Fusion> cuda_fusions();
// Whether GPUs have an int8 GEMV for weights of the type (kernels::cuda::has_gemv_q8).
bool has_cuda_int8_kernel(DType dtype);

}  // namespace graft::ops
