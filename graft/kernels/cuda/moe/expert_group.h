// A part of the routed experts of a layer, for experts that reach the GPU a group at a time: the
// results of one group are added to y. Groups are added in ascending order of experts, so y does
// not depend on how the experts are grouped.

#pragma once

#include <cstddef>
#include <cstdint>

#include "graft/kernels/cuda/moe/experts.h"

namespace graft::kernels::cuda {

// Experts [first_expert, first_expert + num_experts), their matrices as contiguous F16 or f32 rows.
struct ExpertGroup {
  DType dtype = DType::F16;
  std::int64_t first_expert = 0;
  std::int64_t num_experts = 0;
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  const void* gate = nullptr;    // [num_experts, intermediate, hidden]
  const void* up = nullptr;      // [num_experts, intermediate, hidden]
  const void* down = nullptr;    // [num_experts, hidden, intermediate]
  ExpertEpilogue epilogue = {};  // biases of all experts of the layer
};

// Tokens with their routing. `groups` are their pairs, sorted by expert with group_tile_rows() rows
// per tile; the group's experts have tiles [first_tile, first_tile + num_tiles) and sorted pairs
// [first_pair, first_pair + num_pairs).
struct GroupRows {
  std::int64_t rows = 0;
  std::int64_t top_k = 0;
  ConstRows x;  // [rows, hidden]
  F16Rows x16;  // x for F16 weights
  const std::int32_t* expert_ids = nullptr;
  const float* weights = nullptr;
  Rows y;
  PairGroups groups;
  std::int64_t first_tile = 0;
  std::int64_t num_tiles = 0;
  std::int64_t first_pair = 0;
  std::int64_t num_pairs = 0;
};

std::int64_t group_tile_rows(DType dtype);
// Scratch bytes for up to `rows` rows.
std::size_t expert_group_bytes(const ExpertGroup& group, std::int64_t rows, std::int64_t top_k);
// y[token] += sum of weight * expert(x) over the token's experts in the group.
void add_expert_group(const ExpertGroup& group,
                      const GroupRows& rows,
                      void* scratch,
                      Stream stream);

}  // namespace graft::kernels::cuda
