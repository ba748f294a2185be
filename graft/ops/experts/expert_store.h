// The routed experts of a layer in host memory, as operators of other devices read them: the
// weights exist once, whichever device multiplies them.

#pragma once

#include <span>

#include "graft/ops/weight.h"
#include "graft/packing/packed_matrix.h"

namespace graft::ops {

// One projection of all experts, by expert index: packed, or rows as the checkpoint stores them.
struct ExpertProjection {
  std::span<const packing::PackedMatrix> packed = {};
  std::span<const Weight> stored = {};

  bool empty() const { return packed.empty() && stored.empty(); }
};

// Valid until the operator that offers it is unloaded.
struct ExpertStore {
  ExpertProjection gate_proj = {};
  ExpertProjection up_proj = {};
  ExpertProjection down_proj = {};
  // The weights are larger than the free memory and stay in the cache file (packing::DiskPanels):
  // do not page-lock them.
  bool is_on_disk = false;
  // Each expert reads the columns of x in an order of its own (GPTQ's desc_act), which the
  // projections do not tell.
  bool has_column_order = false;

  bool empty() const { return gate_proj.empty(); }
};

}  // namespace graft::ops
