#include "graft/ops/experts/moe_common.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/str.h"

namespace graft::ops {
namespace {

// Families with such biases call the projections gate_proj, up_proj and down_proj.
std::vector<float> load_bias(WeightProvider& weights,
                             const std::string& module,
                             std::string_view projection,
                             std::int64_t num_experts,
                             std::int64_t rows) {
  std::vector<float> all;
  for (std::int64_t expert = 0; expert < num_experts; ++expert) {
    const std::vector<float> one =
        load_vector(weights, str(module, '.', expert, '.', projection, ".bias"), rows);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// One projection of all experts.
std::vector<Weight> load_projection(WeightProvider& weights,
                                    const std::string& module,
                                    std::string_view projection,
                                    const ExpertsParams& params) {
  std::vector<Weight> loaded = weights.experts(module, projection);
  if (static_cast<std::int64_t>(loaded.size()) != params.num_experts) {
    fail(module, ": ", projection, " found for ", loaded.size(), " of ", params.num_experts,
         " experts");
  }
  const bool is_down = projection == "down_proj";
  for (const Weight& weight : loaded) {
    weight.expect_linear(is_down ? params.hidden_size : params.intermediate_size,
                         is_down ? params.intermediate_size : params.hidden_size);
  }
  return loaded;
}

// Row i becomes row order[i].
void order_rows(std::span<const std::int32_t> order, Weight& weight) {
  GRAFT_CHECK(weight.scale == nullptr, weight.name, ": rows with separate scales");
  const Weight from = weight;
  const std::size_t row_bytes = weight.row_bytes();
  std::byte* out = allocate_rows(weight);
  for (std::size_t row = 0; row < order.size(); ++row) {
    std::memcpy(out + row * row_bytes, from.data + static_cast<std::size_t>(order[row]) * row_bytes,
                row_bytes);
  }
}

template <class Int>
Int stored_value(const Weight& weight, std::size_t i) {
  Int value = 0;
  std::memcpy(&value, weight.data + i * sizeof(value), sizeof(value));
  return value;
}

}  // namespace

void check_router(const std::string& module, const RouterParams& params) {
  const bool even = params.num_groups > 0 && params.num_experts % params.num_groups == 0;
  if (even && params.top_k_groups >= 1 && params.top_k_groups <= params.num_groups &&
      params.top_k >= 1 && params.top_k <= params.num_experts)
    return;
  fail(module, ": invalid routing: top ", params.top_k, " of ", params.num_experts,
       " experts from the top ", params.top_k_groups, " of ", params.num_groups, " groups");
}

std::vector<std::int32_t> load_hash_table(WeightProvider& weights,
                                          const std::string& module,
                                          const RouterParams& params) {
  const Weight weight = weights.get(module + ".tid2eid");
  weight.expect_shape(params.hash_vocab_size, params.top_k);
  if (weight.dtype != DType::I64 && weight.dtype != DType::I32)
    fail(weight.name, " is ", name(weight.dtype), ", expected I64 or I32");
  const bool is_wide = weight.dtype == DType::I64;
  std::vector<std::int32_t> table(static_cast<std::size_t>(params.hash_vocab_size * params.top_k));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::int64_t id =
        is_wide ? stored_value<std::int64_t>(weight, i) : stored_value<std::int32_t>(weight, i);
    if (id < 0 || id >= params.num_experts) {
      fail(weight.name, ": expert ", id, " of token ", i / static_cast<std::size_t>(params.top_k),
           ": the model has ", params.num_experts, " experts");
    }
    table[i] = static_cast<std::int32_t>(id);
  }
  return table;
}

ExpertWeights load_experts(WeightProvider& weights,
                           const std::string& module,
                           const ExpertsParams& params) {
  ExpertWeights loaded = {.gate_proj = load_projection(weights, module, "gate_proj", params),
                          .up_proj = load_projection(weights, module, "up_proj", params),
                          .down_proj = load_projection(weights, module, "down_proj", params)};
  for (std::size_t i = 0; i < loaded.down_proj.size(); ++i) {
    const auto order = std::exchange(loaded.down_proj[i].column_order, nullptr);
    if (!order) continue;
    if (params.bias) {
      fail(loaded.down_proj[i].name, ": columns in the order of their groups (GPTQ's desc_act) ",
           "are not supported in experts with biases");
    }
    order_rows(*order, loaded.gate_proj[i]);
    order_rows(*order, loaded.up_proj[i]);
  }
  return loaded;
}

ExpertBiases load_expert_biases(WeightProvider& weights,
                                const std::string& module,
                                const ExpertsParams& params) {
  if (!params.bias) return {};
  const auto load = [&](std::string_view projection, std::int64_t rows) {
    return load_bias(weights, module, projection, params.num_experts, rows);
  };
  return {.gate_proj = load("gate_proj", params.intermediate_size),
          .up_proj = load("up_proj", params.intermediate_size),
          .down_proj = load("down_proj", params.hidden_size)};
}

}  // namespace graft::ops
