// The routed experts of a layer with packed weights: gate and up projection, activation,
// quantizing, down projection. The threads share one list of work items of all experts.
//
// Experts whose weights stay on disk are computed in batches: while one is computed, the next one
// is read. A token's experts are one batch: all of them are requested before the first is computed.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graft/ops/cpu/expert_activation.h"
#include "graft/ops/cpu/expert_groups.h"
#include "graft/ops/cpu/expert_input.h"
#include "graft/ops/cpu/packed.h"
#include "graft/ops/experts/expert_store.h"

namespace graft::ops::cpu {

class PackedExperts {
 public:
  PackedExperts() = default;
  // [experts] weights each.
  PackedExperts(std::span<const Weight> gate_proj,
                std::span<const Weight> up_proj,
                std::span<const Weight> down_proj,
                WeightProvider& provider);

  // Whether all weights can be packed, gate_proj and up_proj have one type, and down_proj has one
  // type: then x is quantized once for all experts.
  static bool can_pack(std::span<const Weight> gate_proj,
                       std::span<const Weight> up_proj,
                       std::span<const Weight> down_proj);
  bool empty() const { return gate_proj_.empty(); }
  ExpertStore store() const {
    return {.gate_proj = {.packed = gate_proj_},
            .up_proj = {.packed = up_proj_},
            .down_proj = {.packed = down_proj_},
            .is_on_disk = is_on_disk()};
  }

  // out[pair] = down(activation(gate(x), up(x))) for every (token, expert) pair in the order of
  // `sorted`. out: [pairs, hidden]
  void forward(const ExpertInput& x,
               const ExpertGroups& sorted,
               const ExpertActivation& activation,
               TensorView out,
               Pass& pass);

 private:
  // Rows [first_pair, first_pair + num_rows) of one expert, at most kernels::cpu::kMaxGemmRows,
  // with outputs [begin, begin + count).
  struct Item {
    std::int64_t expert = 0;
    std::int64_t first_pair = 0;
    std::int64_t num_rows = 0;
    std::int64_t begin = 0;
    std::int64_t count = 0;

    ExpertActivation::Outputs outputs() const {
      return {.expert = expert, .begin = begin, .count = count};
    }
  };
  struct Outputs {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  struct Tile {
    std::int64_t first_pair = 0;
    std::int64_t num_rows = 0;
  };

  // x for the kernels.
  struct QuantizedInput {
    QuantizedRows gate;
    QuantizedRows up;
    bool has_one_row = false;  // all pairs read the first row
  };

  using Batch = std::span<const ExpertGroups::Group>;

  bool is_on_disk() const { return gate_proj_.front().disk() != nullptr; }
  // All groups; with weights on disk, batches of experts of up to kMaxBatchBytes.
  void list_batches(const ExpertGroups& sorted);
  // The matrices of a step: gate and up of a batch, or (second half of the steps) its down.
  std::vector<const packing::DiskPanels*> disk_panels(std::size_t step) const;
  void read_ahead(std::size_t step) const;
  // Reads the next step ahead and verifies this one. Nothing to do for weights in memory.
  void begin_step(std::size_t step, Pass& pass) const;

  void list_tiles(const ExpertGroups& sorted);
  // Items are ordered by NUMA node, then by expert: whichever experts a pass routes to, each node
  // reads its slice of their weights.
  void list_items(Batch groups, std::int64_t num_outputs, const ThreadPool& pool);
  void list_items_of(const ExpertGroups::Group& group, Outputs outputs, std::int64_t step);
  // Quantizes source(pair), a row of `cols` floats, for every pair.
  template <class Source>
  void quantize_pairs(const QuantizedRows& quantized,
                      std::int64_t cols,
                      const Source& source,
                      Pass& pass) const;
  QuantizedInput quantize(const ExpertInput& x, const ExpertGroups& sorted, Pass& pass) const;
  void gate_and_up(const QuantizedInput& x,
                   const ExpertActivation& activation,
                   TensorView inner,
                   Pass& pass);
  void down(const QuantizedRows& quantized,
            const ExpertActivation& activation,
            TensorView out,
            Pass& pass);

  std::vector<PackedMatrix> gate_proj_;  // [experts] of [intermediate, hidden]
  std::vector<PackedMatrix> up_proj_;    // [experts] of [intermediate, hidden]
  std::vector<PackedMatrix> down_proj_;  // [experts] of [hidden, intermediate]
  // Work lists of the current pass, kept between passes to avoid allocations.
  std::vector<Batch> batches_;
  std::vector<Tile> tiles_;
  std::vector<Item> items_;
};

}  // namespace graft::ops::cpu
