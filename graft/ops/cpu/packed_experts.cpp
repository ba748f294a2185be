#include "graft/ops/cpu/packed_experts.h"

#include <algorithm>
#include <array>

#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

// Max outputs of a work item: the gate and up products of its rows stay in the L2 cache until the
// activation reads them.
constexpr std::int64_t kMaxOutputs = 128;

// Bytes of experts on disk that are read while others are computed: deep queues for the drive, a
// small part of the memory. A batch has at least one expert.
constexpr std::size_t kMaxBatchBytes = std::size_t{512} << 20U;

bool can_pack_all(std::span<const Weight> weights, DType dtype) {
  return std::ranges::all_of(weights, [&](const Weight& weight) {
    return cpu::can_pack(weight) && weight.dtype == dtype;
  });
}

}  // namespace

bool PackedExperts::can_pack(std::span<const Weight> gate_proj,
                             std::span<const Weight> up_proj,
                             std::span<const Weight> down_proj) {
  if (gate_proj.empty()) return false;
  const DType dtype = gate_proj.front().dtype;
  return can_pack_all(gate_proj, dtype) && can_pack_all(up_proj, dtype) &&
         can_pack_all(down_proj, down_proj.front().dtype);
}

PackedExperts::PackedExperts(std::span<const Weight> gate_proj,
                             std::span<const Weight> up_proj,
                             std::span<const Weight> down_proj,
                             WeightProvider& provider)
    : gate_proj_(pack(gate_proj, provider)),
      up_proj_(pack(up_proj, provider)),
      down_proj_(pack(down_proj, provider)) {}

void PackedExperts::list_batches(const ExpertGroups& sorted) {
  batches_.clear();
  const Batch all = sorted.groups;
  if (!is_on_disk()) return batches_.push_back(all);
  const std::size_t expert_bytes =
      gate_proj_.front().bytes() + up_proj_.front().bytes() + down_proj_.front().bytes();
  const std::size_t step = std::max<std::size_t>(1, kMaxBatchBytes / expert_bytes);
  for (std::size_t first = 0; first < all.size(); first += step)
    batches_.push_back(all.subspan(first, std::min(step, all.size() - first)));
}

std::vector<const packing::DiskPanels*> PackedExperts::disk_panels(std::size_t step) const {
  std::vector<const packing::DiskPanels*> panels;
  if (!is_on_disk() || step >= 2 * batches_.size()) return panels;
  for (const ExpertGroups::Group& group : batches_[step % batches_.size()]) {
    const auto expert = static_cast<std::size_t>(group.expert);
    if (step < batches_.size()) {
      panels.push_back(gate_proj_[expert].disk());
      panels.push_back(up_proj_[expert].disk());
    } else {
      panels.push_back(down_proj_[expert].disk());
    }
  }
  return panels;
}

void PackedExperts::read_ahead(std::size_t step) const {
  for (const packing::DiskPanels* panels : disk_panels(step))
    panels->read_ahead();
}

void PackedExperts::begin_step(std::size_t step, Pass& pass) const {
  if (!is_on_disk()) return;
  if (step == 0) read_ahead(0);
  read_ahead(step + 1);
  for (const packing::DiskPanels* panels : disk_panels(step))
    panels->verify(&pass.pool);
}

void PackedExperts::list_tiles(const ExpertGroups& sorted) {
  tiles_.clear();
  for (const ExpertGroups::Group& group : sorted.groups) {
    for (std::int64_t pair = group.begin; pair < group.end; pair += QuantizedRows::tile_rows()) {
      tiles_.push_back(
          {.first_pair = pair, .num_rows = std::min(QuantizedRows::tile_rows(), group.end - pair)});
    }
  }
}

void PackedExperts::list_items(Batch groups, std::int64_t num_outputs, const ThreadPool& pool) {
  std::int64_t num_row_tiles = 0;
  for (const ExpertGroups::Group& group : groups) {
    num_row_tiles +=
        (group.num_rows() + kernels::cpu::kMaxGemmRows - 1) / kernels::cpu::kMaxGemmRows;
  }
  const std::int64_t wanted = kItemsPerThread * static_cast<std::int64_t>(pool.num_threads());
  const std::int64_t even = num_outputs * num_row_tiles / wanted / kOutputStep * kOutputStep;
  const std::int64_t step = std::clamp(even, kOutputStep, kMaxOutputs);
  const auto num_steps = static_cast<std::size_t>((num_outputs + step - 1) / step);
  items_.clear();
  for (std::size_t node = 0; node < pool.num_nodes(); ++node) {
    const auto [first, last] = pool.node_range(node, num_steps);
    const Outputs outputs = {.begin = static_cast<std::int64_t>(first) * step,
                             .end = std::min(static_cast<std::int64_t>(last) * step, num_outputs)};
    for (const ExpertGroups::Group& group : groups)
      list_items_of(group, outputs, step);
  }
}

void PackedExperts::list_items_of(const ExpertGroups::Group& group,
                                  Outputs outputs,
                                  std::int64_t step) {
  for (std::int64_t begin = outputs.begin; begin < outputs.end; begin += step) {
    for (std::int64_t pair = group.begin; pair < group.end; pair += kernels::cpu::kMaxGemmRows) {
      items_.push_back({.expert = group.expert,
                        .first_pair = pair,
                        .num_rows = std::min(kernels::cpu::kMaxGemmRows, group.end - pair),
                        .begin = begin,
                        .count = std::min(step, outputs.end - begin)});
    }
  }
}

template <class Source>
void PackedExperts::quantize_pairs(const QuantizedRows& quantized,
                                   std::int64_t cols,
                                   const Source& source,
                                   Pass& pass) const {
  const auto quantize_tile = [&](const Tile& tile) {
    std::array<const float*, kernels::cpu::kMaxGemmRows> rows;
    for (std::int64_t i = 0; i < tile.num_rows; ++i)
      rows[static_cast<std::size_t>(i)] = source(tile.first_pair + i);
    quantized.quantize(tile.first_pair, rows.data(), tile.num_rows);
  };
  const std::int64_t num_pairs = tiles_.back().first_pair + tiles_.back().num_rows;
  if (num_pairs * cols <= kMaxElemsPerThread) {
    std::ranges::for_each(tiles_, quantize_tile);
  } else {
    pass.pool.parallel_for(tiles_.size(), [&](std::size_t i) { quantize_tile(tiles_[i]); });
  }
}

PackedExperts::QuantizedInput PackedExperts::quantize(const ExpertInput& x,
                                                      const ExpertGroups& sorted,
                                                      Pass& pass) const {
  // A table of tokens may name an expert twice for a token: that group has two rows.
  const bool has_one_row = !x.is_by_pair && x.gate.rows() == 1 &&
                           std::ranges::all_of(sorted.groups, [](const ExpertGroups::Group& group) {
                             return group.num_rows() == 1;
                           });
  const std::int64_t cols = x.gate.cols();
  const auto num_pairs = static_cast<std::int64_t>(sorted.token_of.size());
  const auto rows_of = [&](TensorView from) {
    const QuantizedRows quantized(gate_proj_.front().dtype(), cols, has_one_row ? 1 : num_pairs,
                                  pass.workspace);
    if (has_one_row) {
      const float* row = from.f32_row(0);
      quantized.quantize(0, &row, 1);
      return quantized;
    }
    const auto source = [&](std::int64_t pair) {
      return from.f32_row(x.is_by_pair ? pair : sorted.token_of[static_cast<std::size_t>(pair)]);
    };
    quantize_pairs(quantized, cols, source, pass);
    return quantized;
  };
  const QuantizedRows gate = rows_of(x.gate);
  return {.gate = gate, .up = x.has_own_up() ? rows_of(x.up) : gate, .has_one_row = has_one_row};
}

void PackedExperts::forward(const ExpertInput& x,
                            const ExpertGroups& sorted,
                            const ExpertActivation& activation,
                            TensorView out,
                            Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  const std::int64_t num_pairs = out.rows();
  const std::int64_t intermediate = gate_proj_.front().rows();
  list_batches(sorted);
  list_tiles(sorted);
  const QuantizedInput quantized = quantize(x, sorted, pass);
  const TensorView inner = pass.workspace.f32({num_pairs, intermediate});
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    begin_step(i, pass);
    list_items(batches_[i], intermediate, pass.pool);
    gate_and_up(quantized, activation, inner, pass);
  }

  const QuantizedRows quantized_inner(down_proj_.front().dtype(), intermediate, num_pairs,
                                      pass.workspace);
  const auto inner_row = [&](std::int64_t pair) { return inner.f32_row(pair); };
  quantize_pairs(quantized_inner, intermediate, inner_row, pass);
  for (std::size_t batch = 0; batch < batches_.size(); ++batch) {
    begin_step(batches_.size() + batch, pass);
    list_items(batches_[batch], out.cols(), pass.pool);
    down(quantized_inner, activation, out, pass);
  }
}

void PackedExperts::down(const QuantizedRows& quantized,
                         const ExpertActivation& activation,
                         TensorView out,
                         Pass& pass) {
  pass.pool.parallel_for(items_.size(), [&](std::size_t i) {
    const Item& item = items_[i];
    float* y = out.f32_row(item.first_pair) + item.begin;
    multiply_range(down_proj_[static_cast<std::size_t>(item.expert)], item.begin, item.count,
                   quantized.from(item.first_pair), item.num_rows, y, out.cols());
    for (std::int64_t row = 0; row < item.num_rows; ++row)
      activation.add_down_bias(item.outputs(), y + row * out.cols());
  });
}

// inner = activation(gate(x), up(x))
void PackedExperts::gate_and_up(const QuantizedInput& x,
                                const ExpertActivation& activation,
                                TensorView inner,
                                Pass& pass) {
  const Workspace::Scope scope(pass.workspace);
  const auto num_items = static_cast<std::int64_t>(items_.size());
  const TensorView ups =
      pass.workspace.f32({num_workers(pass.pool, num_items),
                          std::min(kernels::cpu::kMaxGemmRows, inner.rows()) * kMaxOutputs});
  for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t i) {
    const Item& item = items_[static_cast<std::size_t>(i)];
    const auto expert = static_cast<std::size_t>(item.expert);
    const std::int64_t first = x.has_one_row ? 0 : item.first_pair;
    float* gate = inner.f32_row(item.first_pair) + item.begin;
    float* up = ups.f32_row(worker);
    multiply_range(gate_proj_[expert], item.begin, item.count, x.gate.from(first), item.num_rows,
                   gate, inner.cols());
    multiply_range(up_proj_[expert], item.begin, item.count, x.up.from(first), item.num_rows, up,
                   kMaxOutputs);
    for (std::int64_t row = 0; row < item.num_rows; ++row) {
      activation.apply(item.outputs(), gate + row * inner.cols(), up + row * kMaxOutputs);
    }
  });
}

}  // namespace graft::ops::cpu
