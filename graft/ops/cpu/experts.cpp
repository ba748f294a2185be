#include <algorithm>
#include <string>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/expert_activation.h"
#include "graft/ops/cpu/expert_groups.h"
#include "graft/ops/cpu/expert_input.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/cpu/packed_experts.h"
#include "graft/ops/cpu/workers.h"
#include "graft/ops/experts/deferred_experts.h"
#include "graft/ops/experts/moe_common.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cpu {
namespace {

// A long prefill is processed in chunks: each token takes top_k rows of every buffer below (about
// 0.5 MB for 8 experts of 7168 x 2048).
constexpr std::int64_t kExpertTokensPerChunk = 512;

class ExpertsCpu final : public Experts {
 public:
  explicit ExpertsCpu(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        repack_(context.bool_kwarg(repack_kwarg())),
        num_deferred_(context.int_kwarg(defer_kwarg())),
        activation_(params_) {}

  void load(WeightProvider& weights) override {
    ExpertWeights loaded = load_experts(weights, module_, params_);
    gate_proj_ = std::move(loaded.gate_proj);
    up_proj_ = std::move(loaded.up_proj);
    down_proj_ = std::move(loaded.down_proj);
    columns_ = ExpertColumns(gate_proj_, up_proj_);
    activation_.load(weights, module_);
    if (!repack_ || weights.packer() == nullptr ||
        !PackedExperts::can_pack(gate_proj_, up_proj_, down_proj_)) {
      return;
    }
    packed_ = PackedExperts(gate_proj_, up_proj_, down_proj_, weights);
    gate_proj_ = {};
    up_proj_ = {};
    down_proj_ = {};
  }
  void unload() override {
    activation_.unload();
    columns_ = {};
    packed_ = {};
    gate_proj_ = {};
    up_proj_ = {};
    down_proj_ = {};
  }

  ExpertStore host_store() const override {
    ExpertStore store = {.gate_proj = {.stored = gate_proj_},
                         .up_proj = {.stored = up_proj_},
                         .down_proj = {.stored = down_proj_}};
    if (!packed_.empty()) store = packed_.store();
    store.has_column_order = !columns_.empty();
    return store;
  }

  void forward(const Activation& activation, Routing routing, TensorView y, Pass& pass) override {
    if (pass.deferred == nullptr || pass.phase == Phase::Prefill)
      return forward_now(activation.f32, routing, y, pass);
    const auto compute = [this](TensorView x, Routing chosen, TensorView sum, Pass& there) {
      forward_now(x, chosen, sum, there);
    };
    pass.deferred->forward(num_deferred_, compute, activation.f32, routing, y, pass);
  }

 private:
  void forward_now(TensorView x, Routing routing, TensorView y, Pass& pass) {
    const ProfileScope profile(pass, kCpu, module_);
    for (std::int64_t row = 0; row < x.rows(); row += kExpertTokensPerChunk) {
      const std::int64_t count = std::min(kExpertTokensPerChunk, x.rows() - row);
      const Routing chunk = {.expert_ids = routing.expert_ids.slice(row, count),
                             .weights = routing.weights.slice(row, count)};
      forward_chunk(x.slice(row, count), chunk, y.slice(row, count), pass);
    }
  }

  void forward_chunk(TensorView x, Routing routing, TensorView y, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t top_k = routing.expert_ids.cols();
    ExpertGroups& sorted = sorted_;
    sorted.sort({routing.expert_ids.as<std::int32_t>(), static_cast<std::size_t>(x.rows() * top_k)},
                top_k, params_.num_experts);
    const auto num_pairs = static_cast<std::int64_t>(sorted.token_of.size());
    const TensorView rows = pass.workspace.f32({num_pairs, params_.hidden_size});
    if (num_pairs == 0) return sum_up(sorted, routing, rows, y, pass);
    ExpertInput input = {.gate = x, .up = x};
    if (!columns_.empty()) input = columns_.order(x, sorted, pass);
    if (!packed_.empty()) {
      packed_.forward(input, sorted, activation_, rows, pass);
      sum_up(sorted, routing, rows, y, pass);
      return;
    }
    const TensorView inner = pass.workspace.f32({num_pairs, params_.intermediate_size});
    if (!input.is_by_pair) {
      for (std::int64_t pair = 0; pair < num_pairs; ++pair) {
        const std::int64_t token = sorted.token_of[static_cast<std::size_t>(pair)];
        std::copy_n(x.f32_row(token), params_.hidden_size, rows.f32_row(pair));
      }
      input = {.gate = rows, .up = rows, .is_by_pair = true};
    }
    gate_and_up(sorted, input, inner, pass);
    down(sorted, inner, rows, pass);  // the gathered rows are no longer needed
    sum_up(sorted, routing, rows, y, pass);
  }

  // inner = activation(gate(x), up(x))
  void gate_and_up(const ExpertGroups& sorted, const ExpertInput& x, TensorView inner, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    const TensorView up = pass.workspace.f32({inner.rows(), inner.cols()});
    for_each_block(sorted, gate_proj_, up_proj_, pass, [&](const Block& block) {
      const auto expert = static_cast<std::size_t>(block.group.expert);
      const kernels::cpu::RowsF32 in = rows_of_group(block.group, x.gate);
      float* gate_out = inner.f32_row(block.group.begin) + block.begin;
      float* up_out = up.f32_row(block.group.begin) + block.begin;
      multiply_block(gate_proj_[expert], block.begin, block.count, in, gate_out, inner.cols(),
                     block.scratch);
      multiply_block(up_proj_[expert], block.begin, block.count, rows_of_group(block.group, x.up),
                     up_out, up.cols(), block.scratch);
      for (std::int64_t row = 0; row < in.rows; ++row) {
        activation_.apply(block.outputs(), gate_out + row * inner.cols(), up_out + row * up.cols());
      }
    });
  }

  void down(const ExpertGroups& sorted, TensorView inner, TensorView out, Pass& pass) {
    const Workspace::Scope scope(pass.workspace);
    for_each_block(sorted, down_proj_, down_proj_, pass, [&](const Block& block) {
      float* y = out.f32_row(block.group.begin) + block.begin;
      multiply_block(down_proj_[static_cast<std::size_t>(block.group.expert)], block.begin,
                     block.count, rows_of_group(block.group, inner), y, out.cols(), block.scratch);
      for (std::int64_t row = 0; row < block.group.num_rows(); ++row)
        activation_.add_down_bias(block.outputs(), y + row * out.cols());
    });
  }

  // A token's experts are added in routing order, for batch invariance.
  void sum_up(
      const ExpertGroups& sorted, Routing routing, TensorView out, TensorView y, Pass& pass) {
    const std::int64_t top_k = routing.expert_ids.cols();
    for_each_item(pass.pool, y.rows(), [&](std::int64_t /*worker*/, std::int64_t token) {
      float* sum = y.f32_row(token);
      std::fill_n(sum, params_.hidden_size, 0.0F);
      for (std::int64_t k = 0; k < top_k; ++k) {
        const std::int64_t pair = sorted.pair_of[static_cast<std::size_t>(token * top_k + k)];
        if (pair < 0) continue;
        kernels::cpu::kernels().math.axpy(routing.weights.f32_row(token)[k], out.f32_row(pair), sum,
                                          params_.hidden_size);
      }
    });
  }

  // Weight rows [begin, begin + count) of one expert, for the tokens of its group.
  struct Block {
    const ExpertGroups::Group& group;
    std::int64_t begin = 0;
    std::int64_t count = 0;
    float* scratch = nullptr;

    ExpertActivation::Outputs outputs() const {
      return {.expert = group.expert, .begin = begin, .count = count};
    }
  };

  static kernels::cpu::RowsF32 rows_of_group(const ExpertGroups::Group& group, TensorView x) {
    return {.data = x.f32_row(group.begin), .rows = group.end - group.begin, .stride = x.cols()};
  }

  // Both projections have the same shape; dtypes may differ between them and between experts.
  template <class Body>
  void for_each_block(const ExpertGroups& sorted,
                      const std::vector<Weight>& first,
                      const std::vector<Weight>& second,
                      Pass& pass,
                      const Body& body) {
    const Weight& any = first.front();
    const std::int64_t step = rows_per_block(any);
    const std::int64_t num_blocks = (any.rows() + step - 1) / step;
    std::int64_t elems = 0;
    for (const ExpertGroups::Group& group : sorted.groups) {
      const auto expert = static_cast<std::size_t>(group.expert);
      elems = std::max({elems, scratch_elems(first[expert]), scratch_elems(second[expert])});
    }
    const std::int64_t num_items = static_cast<std::int64_t>(sorted.groups.size()) * num_blocks;
    const TensorView scratch = pass.workspace.f32({num_workers(pass.pool, num_items), elems});
    for_each_item(pass.pool, num_items, [&](std::int64_t worker, std::int64_t item) {
      const std::int64_t begin = item % num_blocks * step;
      body(Block{.group = sorted.groups[static_cast<std::size_t>(item / num_blocks)],
                 .begin = begin,
                 .count = std::min(step, any.rows() - begin),
                 .scratch = scratch.f32_row(worker)});
    });
  }

  std::string module_;
  ExpertsParams params_;
  bool repack_;
  std::int64_t num_deferred_;  // experts of a token
  ExpertActivation activation_;
  ExpertColumns columns_;
  PackedExperts packed_;           // or, in the dtype of the file:
  std::vector<Weight> gate_proj_;  // [experts] of [intermediate, hidden]
  std::vector<Weight> up_proj_;    // [experts] of [intermediate, hidden]
  std::vector<Weight> down_proj_;  // [experts] of [hidden, intermediate]
  ExpertGroups sorted_;            // of the chunk
};

}  // namespace

std::unique_ptr<Operator> make_experts_cpu(const BuildContext& context) {
  return std::make_unique<ExpertsCpu>(context);
}

}  // namespace graft::ops::cpu
