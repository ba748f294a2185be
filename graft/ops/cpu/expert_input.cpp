#include "graft/ops/cpu/expert_input.h"

#include <algorithm>
#include <utility>

#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {

ExpertColumns::ExpertColumns(std::span<Weight> gate_proj, std::span<Weight> up_proj) {
  const auto take = [](std::span<Weight> from) {
    Orders orders;
    for (Weight& weight : from)
      orders.push_back(std::exchange(weight.column_order, nullptr));
    return orders;
  };
  gate_ = take(gate_proj);
  up_ = take(up_proj);
  const auto is_null = [](const auto& order) { return order == nullptr; };
  if (std::ranges::all_of(gate_, is_null) && std::ranges::all_of(up_, is_null)) gate_ = up_ = {};
  has_own_up_ = !std::ranges::equal(gate_, up_, [](const auto& gate, const auto& up) {
    return gate == up || (gate != nullptr && up != nullptr && *gate == *up);
  });
}

ExpertInput ExpertColumns::order(TensorView x, const ExpertGroups& sorted, Pass& pass) const {
  const TensorView gate = order_rows(gate_, x, sorted, pass);
  return {.gate = gate,
          .up = has_own_up_ ? order_rows(up_, x, sorted, pass) : gate,
          .is_by_pair = true};
}

TensorView ExpertColumns::order_rows(const Orders& orders,
                                     TensorView x,
                                     const ExpertGroups& sorted,
                                     Pass& pass) {
  const auto num_pairs = static_cast<std::int64_t>(sorted.token_of.size());
  const TensorView ordered = pass.workspace.f32({num_pairs, x.cols()});
  const auto num_groups = static_cast<std::int64_t>(sorted.groups.size());
  for_each_item(pass.pool, num_groups, [&](std::int64_t /*worker*/, std::int64_t i) {
    const ExpertGroups::Group& group = sorted.groups[static_cast<std::size_t>(i)];
    const auto& order = orders[static_cast<std::size_t>(group.expert)];
    for (std::int64_t pair = group.begin; pair < group.end; ++pair) {
      const float* from = x.f32_row(sorted.token_of[static_cast<std::size_t>(pair)]);
      float* to = ordered.f32_row(pair);
      if (!order) {
        std::copy_n(from, x.cols(), to);
        continue;
      }
      for (const std::int32_t col : *order)
        *to++ = from[col];
    }
  });
  return ordered;
}

}  // namespace graft::ops::cpu
