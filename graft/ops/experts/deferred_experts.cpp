#include "graft/ops/experts/deferred_experts.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "graft/base/check.h"

namespace graft::ops {
namespace {

std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

template <class T>
std::vector<T> copy_of(TensorView view) {
  const auto* data = view.as<T>();
  return {data, data + view.num_elems()};
}

TensorView view_of(std::vector<float>& values, std::int64_t rows) {
  return {values.data(), DType::F32, {rows, static_cast<std::int64_t>(values.size()) / rows}};
}

TensorView view_of(std::vector<std::int32_t>& values, std::int64_t rows) {
  return {values.data(), DType::I32, {rows, static_cast<std::int64_t>(values.size()) / rows}};
}

// Marks the `count` lowest weights of a token with true. Of equal ones the later is taken.
std::vector<bool> lowest(std::span<const float> weights, std::int64_t count) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t k) { return weights[k]; });
  std::vector<bool> is_lowest(weights.size(), false);
  for (std::size_t rank = weights.size() - as_size(count); rank < weights.size(); ++rank)
    is_lowest[order[rank]] = true;
  return is_lowest;
}

}  // namespace

void DeferredExperts::clear() {
  compute_ = nullptr;
  has_sum_ = false;
}

void DeferredExperts::forward(std::int64_t num_deferred,
                              const Compute& compute,
                              TensorView x,
                              Routing routing,
                              TensorView y,
                              Pass& pass) {
  run(pass);
  if (num_deferred == 0 || x.rows() == 0) {
    compute(x, routing, y, pass);
    return add_to(y);
  }
  const std::int64_t top_k = routing.expert_ids.cols();
  auto immediate_ids = copy_of<std::int32_t>(routing.expert_ids);
  std::vector<std::int32_t> deferred_ids(immediate_ids.size(), -1);
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    const std::vector<bool> is_deferred =
        lowest({routing.weights.f32_row(row), as_size(top_k)}, std::min(num_deferred, top_k));
    for (std::int64_t k = 0; k < top_k; ++k) {
      const auto pair = as_size(row * top_k + k);
      if (is_deferred[as_size(k)]) deferred_ids[pair] = std::exchange(immediate_ids[pair], -1);
    }
  }
  // Copied before y is computed, which may be the memory of x.
  auto rows = copy_of<float>(x);
  compute(x, {.expert_ids = view_of(immediate_ids, x.rows()), .weights = routing.weights}, y, pass);
  add_to(y);
  num_rows_ = y.rows();
  x_ = std::move(rows);
  weights_ = copy_of<float>(routing.weights);
  expert_ids_ = std::move(deferred_ids);
  compute_ = compute;
}

void DeferredExperts::run(Pass& pass) {
  if (compute_ == nullptr) return;
  sum_.resize(x_.size());
  const Compute compute = std::exchange(compute_, nullptr);
  compute(view_of(x_, num_rows_),
          {.expert_ids = view_of(expert_ids_, num_rows_), .weights = view_of(weights_, num_rows_)},
          view_of(sum_, num_rows_), pass);
  has_sum_ = true;
}

void DeferredExperts::add_to(TensorView y) {
  if (!has_sum_) return;
  GRAFT_CHECK(y.rows() == num_rows_ && y.num_elems() == static_cast<std::int64_t>(sum_.size()),
              y.rows(), " rows, ", num_rows_, " were deferred");
  float* rows = y.f32();
  for (std::size_t i = 0; i < sum_.size(); ++i)
    rows[i] += sum_[i];
  has_sum_ = false;
}

}  // namespace graft::ops
