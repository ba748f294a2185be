// The rows of x that routed experts read: a row per token, or one per (token, expert) pair where
// each expert reads the columns in an order of its own (GPTQ's desc_act).

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graft/ops/cpu/expert_groups.h"
#include "graft/ops/pass.h"
#include "graft/ops/weight.h"
#include "graft/tensor/tensor.h"

namespace graft::ops::cpu {

struct ExpertInput {
  TensorView gate;  // [tokens, hidden], or [pairs, hidden] in the order of the groups
  TensorView up;    // the same rows, or rows of the order of up_proj
  bool is_by_pair = false;

  bool has_own_up() const { return gate.data != up.data; }
};

// The orders in which the experts of a layer read the columns of x.
class ExpertColumns {
 public:
  ExpertColumns() = default;
  // Moves the orders out of the weights, whose columns then count as in order.
  ExpertColumns(std::span<Weight> gate_proj, std::span<Weight> up_proj);

  bool empty() const { return gate_.empty(); }
  // x in the order of each expert, in memory of the pass. x: [tokens, hidden]
  ExpertInput order(TensorView x, const ExpertGroups& sorted, Pass& pass) const;

 private:
  using Orders = std::vector<std::shared_ptr<const std::vector<std::int32_t>>>;  // null: in order
  static TensorView order_rows(const Orders& orders,
                               TensorView x,
                               const ExpertGroups& sorted,
                               Pass& pass);

  Orders gate_;              // by expert; empty: all are in order
  Orders up_;                // by expert
  bool has_own_up_ = false;  // some expert has two orders
};

}  // namespace graft::ops::cpu
