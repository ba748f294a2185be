// The token-expert pairs of a long prefill pass, sorted by expert, for experts whose F16 or f32
// weights are in GPU memory one group at a time.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/kernels/cuda/moe/expert_group.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/experts/device_experts.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"

namespace graft::ops::cuda {

struct RoutedTokens {
  TensorView x;  // [tokens, hidden]
  Routing routing;
  TensorView y;  // [tokens, hidden]
};

class ExpertPairs {
 public:
  // Sorts the pairs on the GPU, waits for the number of pairs of each expert, and clears y. Memory
  // is from the workspace of the pass. `dtype`: of the weights.
  ExpertPairs(const RoutedTokens& tokens,
              const ExpertsParams& params,
              const kernels::cuda::ExpertEpilogue& epilogue,
              DType dtype,
              CudaContext& gpu,
              Pass& pass);

  std::vector<std::int64_t> rows_by_expert() const;
  // Drops the pairs of experts that are not in the set. Memory is from the workspace of the pass.
  void restrict_to(const ExpertMask& experts, Pass& pass);
  // y += the results of a group's experts. Groups must be added in ascending order.
  void add(const kernels::cuda::ExpertGroup& experts) const;

 private:
  // The pairs of some consecutive tokens.
  struct Chunk {
    std::int64_t first_row = 0;
    std::int64_t num_rows = 0;
    kernels::cuda::PairGroups groups = {};
    // [num_experts + 1]: the first pair and the first tile of each expert.
    std::vector<std::int64_t> first_pair = {};
    std::vector<std::int64_t> first_tile = {};
  };

  std::int64_t rows_per_chunk() const;
  Chunk allocate(std::int64_t first_row,
                 std::int64_t num_rows,
                 TensorView counts,
                 Pass& pass) const;
  void sort(const Chunk& chunk) const;
  // `rows_of(expert)`: pairs of the chunk.
  template <class RowsOf>
  void sum_rows(const RowsOf& rows_of, Chunk& chunk) const;
  kernels::cuda::ExpertGroup shape() const;
  kernels::cuda::GroupRows rows_for(const kernels::cuda::ExpertGroup& experts,
                                    const Chunk& chunk) const;

  RoutedTokens tokens_;
  ExpertsParams params_;
  kernels::cuda::ExpertEpilogue epilogue_;
  DType dtype_;
  std::int64_t tile_rows_;
  CudaContext& gpu_;
  kernels::cuda::F16Rows x16_;
  std::vector<Chunk> chunks_;
  TensorView scratch_;
};

}  // namespace graft::ops::cuda
