// The routed experts of a layer with packed weights: gate and up, the activation and its rounding,
// down. The pieces of all experts' work are one list that the threads share.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/ops/cpu/expert_groups.h"
#include "graft/ops/cpu/packed.h"

namespace graft::ops::cpu {

class PackedExperts {
 public:
  PackedExperts() = default;
  // Each [experts].
  PackedExperts(std::span<const Weight> gate_proj,
                std::span<const Weight> up_proj,
                std::span<const Weight> down_proj,
                WeightProvider& provider);

  // Whether rows of x can be rounded once for both matrices of every expert.
  static bool can_pack(std::span<const Weight> gate_proj,
                       std::span<const Weight> up_proj,
                       std::span<const Weight> down_proj);
  bool empty() const { return gate_proj_.empty(); }

  // out[pairs, hidden] = down(silu(gate(x)) * up(x)) of every pair's token.
  void forward(TensorView x, const ExpertGroups& sorted, TensorView out, Pass& pass);

 private:
  // Rows of one group, at most kernels::cpu::kMaxRows, with outputs [begin, begin + count).
  struct Item {
    std::int64_t expert = 0;
    std::int64_t first_pair = 0;
    std::int64_t num_rows = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };
  struct Outputs {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Tile {
    std::int64_t first_pair = 0;
    std::int64_t num_rows = 0;
  };

  void list_tiles(const ExpertGroups& sorted);
  // The first part of the list is the first part of every expert, and so on: whichever experts a
  // pass takes, each memory node reads its share of their weights.
  void list_items(const ExpertGroups& sorted, std::int64_t num_outputs, const ThreadPool& pool);
  void list_items_of(const ExpertGroups::Group& group, Outputs outputs, std::int64_t step);
  void gate_and_up(const QuantizedRows& rounded, bool one_token, TensorView inner, Pass& pass);

  std::vector<PackedMatrix> gate_proj_;  // [experts] of [intermediate, hidden]
  std::vector<PackedMatrix> up_proj_;    // [experts] of [intermediate, hidden]
  std::vector<PackedMatrix> down_proj_;  // [experts] of [hidden, intermediate]
  // Of the pass: kept so that passes do not allocate.
  std::vector<Tile> tiles_;
  std::vector<Item> items_;
};

}  // namespace graft::ops::cpu
