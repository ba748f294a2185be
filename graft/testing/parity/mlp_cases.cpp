// Cases of feed-forward blocks: dense, mixture of experts, router and experts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "graft/testing/parity/cases.h"

namespace graft::ops::testing {
namespace {

using Method = RouterParams::Method;
using Scoring = RouterParams::Scoring;
using Types = ParityCase::Types;

struct MoeCase {
  std::string name;
  std::string shared;     // the child's name; empty: no shared experts
  bool is_gated = false;  // the shared expert has a gate
  std::int64_t hidden = 0;
  std::int64_t intermediate = 0;
  std::int64_t block = 1;
  Types types = Types::Few;
  bool scales_input = false;  // ExpertsParams
};

// The projections of a gated MLP; `prefix` is empty or ends in a dot.
void add_projections(OperatorBench& bench, const std::string& prefix, const MlpParams& params) {
  const LinearParams in = {.in_features = params.hidden_size,
                           .out_features = params.intermediate_size};
  const LinearParams out = {.in_features = params.intermediate_size,
                            .out_features = params.hidden_size};
  bench.add_linear(prefix + "gate_proj", in);
  bench.add_linear(prefix + "up_proj", in);
  bench.add_linear(prefix + "down_proj", out);
}

// The weights of all experts; `prefix` as above.
void add_experts(OperatorBench& bench, const std::string& prefix, const ExpertsParams& params) {
  const std::int64_t hidden = params.hidden_size;
  const std::int64_t intermediate = params.intermediate_size;
  for (std::int64_t i = 0; i < params.num_experts; ++i) {
    bench.add_matrix(str(prefix, i, ".gate_proj.weight"), intermediate, hidden);
    bench.add_matrix(str(prefix, i, ".up_proj.weight"), intermediate, hidden);
    bench.add_matrix(str(prefix, i, ".down_proj.weight"), hidden, intermediate);
    if (!params.bias) continue;
    bench.add_vector(str(prefix, i, ".gate_proj.bias"), intermediate, 0.5F, 0.0F);
    bench.add_vector(str(prefix, i, ".up_proj.bias"), intermediate, 0.5F, 0.0F);
    bench.add_vector(str(prefix, i, ".down_proj.bias"), hidden, 0.5F, 0.0F);
  }
}

// Whether the experts read x in an order of columns (GPTQ's desc_act).
enum class Columns : std::uint8_t {
  InOrder,
  OneOrder,   // the same in gate_proj and up_proj of an expert
  TwoOrders,  // one in gate_proj, another one in up_proj
};

// The same with columns in other orders, which differ between the experts. One expert keeps the
// order of gate_proj and up_proj, another that of down_proj.
void add_ordered_experts(OperatorBench& bench, const ExpertsParams& params, Columns columns) {
  Random random(11);
  const auto shuffled = [&](std::int64_t cols) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random.engine());
    return order;
  };
  const std::int64_t hidden = params.hidden_size;
  const std::int64_t intermediate = params.intermediate_size;
  for (std::int64_t i = 0; i < params.num_experts; ++i) {
    const std::vector<std::int32_t> gate = shuffled(hidden);
    const std::vector<std::int32_t> up = columns == Columns::OneOrder ? gate : shuffled(hidden);
    if (i == 0) {
      bench.add_matrix("0.gate_proj.weight", intermediate, hidden);
      bench.add_matrix("0.up_proj.weight", intermediate, hidden);
    } else {
      bench.add_ordered_matrix(str(i, ".gate_proj.weight"), intermediate, hidden, gate);
      bench.add_ordered_matrix(str(i, ".up_proj.weight"), intermediate, hidden, up);
    }
    const std::string down = str(i, ".down_proj.weight");
    if (i == 1) {
      bench.add_matrix(down, hidden, intermediate);
    } else {
      bench.add_ordered_matrix(down, hidden, intermediate, shuffled(intermediate));
    }
  }
}

Exercise mlp_exercise(Mlp& mlp, std::int64_t hidden) {
  return {.forward = [&mlp, hidden](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(hidden);
    const TensorView y = run.unwritten(hidden);
    mlp.forward(x, y, run.pass());
    return {run.download("y", y)};
  }};
}

Exercise build_mlp(OperatorBench& bench, const MlpParams& params) {
  add_projections(bench, "", params);
  return mlp_exercise(bench.add_subject<Mlp>(Role::Mlp, params), params.hidden_size);
}

// Router scores select experts, so all dtypes use the tolerance of F32 arithmetic.
Exercise build_router(OperatorBench& bench, const RouterParams& params) {
  bench.add_matrix("weight", params.num_experts, params.hidden_size);
  if (params.bias) bench.add_vector("bias", params.num_experts, 0.5F, 0.0F);
  if (params.method == Method::NoauxTc && params.hash_vocab_size == 0)
    bench.add_vector("e_score_correction_bias", params.num_experts, 0.1F, 0.0F);
  if (params.hash_vocab_size > 0) {
    std::vector<std::int32_t> table;
    for (std::int64_t i = 0; i < params.hash_vocab_size * params.top_k; ++i)
      table.push_back(static_cast<std::int32_t>(i * 7 % params.num_experts));
    bench.add_indices("tid2eid", params.top_k, table);
  }
  auto& router = bench.add_subject<Router>(Role::Router, params);
  return {.forward = [&router, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(params.hidden_size);
    const Routing routing = {.expert_ids = run.unwritten(params.top_k, DType::I32),
                             .weights = run.unwritten(params.top_k)};
    router.forward(x, routing, run.pass());
    return {run.download("expert ids", routing.expert_ids),
            run.download("weights", routing.weights)};
  }};
}

// Distinct experts for each row, drawn at random.
std::vector<std::int32_t> random_experts(std::int64_t rows, const ExpertsParams& params) {
  Random random(static_cast<unsigned>(rows) + 5);
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> order(static_cast<std::size_t>(params.num_experts));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::ranges::shuffle(order, random.engine());
    ids.insert(ids.end(), order.begin(), order.begin() + params.top_k);
  }
  return ids;
}

// With forward(), and with begin() and end().
Exercise build_experts(OperatorBench& bench, const ExpertsParams& params, Columns columns) {
  if (columns == Columns::InOrder) {
    add_experts(bench, "", params);
  } else {
    add_ordered_experts(bench, params, columns);
  }
  auto& experts = bench.add_subject<Experts>(Role::Experts, params);
  return {.forward = [&experts, params](DeviceRun& run) -> std::vector<ParityResult> {
    const TensorView x = run.random_rows(params.hidden_size);
    const Routing routing = {
        .expert_ids = run.upload(random_experts(run.rows(), params), params.top_k),
        .weights = run.random_rows(params.top_k)};
    const TensorView y = run.unwritten(params.hidden_size);
    experts.forward(x, routing, y, run.pass());
    const TensorView y_of_two = run.unwritten(params.hidden_size);
    experts.begin(x, routing, run.pass());
    experts.end(x, routing, y_of_two, run.pass());
    return {run.download("y", y), run.download("y of begin and end", y_of_two)};
  }};
}

// The router's weights are F32, so that all operators select the same experts.
Exercise build_moe(OperatorBench& bench, const MoeCase& of) {
  const ExpertsParams experts = {.num_experts = 6,
                                 .top_k = of.scales_input ? 1 : 3,
                                 .hidden_size = of.hidden,
                                 .intermediate_size = of.intermediate};
  bench.add_f32_matrix("gate.weight", experts.num_experts, of.hidden);
  bench.add_child<Router>(
      "gate", Role::Router,
      RouterParams{.hidden_size = of.hidden,
                   .num_experts = experts.num_experts,
                   .top_k = experts.top_k,
                   .scoring = of.scales_input ? Scoring::Sigmoid : Scoring::Softmax,
                   .normalize = !of.scales_input});
  add_experts(bench, "experts.", experts);
  bench.add_child<Experts>("experts", Role::Experts, experts);
  if (!of.shared.empty()) {
    const MlpParams shared = {.hidden_size = of.hidden, .intermediate_size = of.intermediate};
    add_projections(bench, of.shared + ".", shared);
    bench.add_child<Mlp>(of.shared, Role::Mlp, shared);
  }
  if (of.is_gated)
    bench.add_linear("shared_expert_gate", {.in_features = of.hidden, .out_features = 1});
  ExpertsParams params = experts;
  params.scales_input = of.scales_input;
  return mlp_exercise(bench.add_subject<Mlp>(Role::Moe, params), of.hidden);
}

ParityCase router_case(const std::string& name, const RouterParams& params, Types types) {
  return {.name = name,
          .role = Role::Router,
          .params = params,
          .build = [params](OperatorBench& bench) { return build_router(bench, params); },
          .tolerance = {kF32Sum, kF32Sum, kF32Sum, kF32Sum},
          .block = params.hidden_size == 288 ? 32 : 256,
          .types = types};
}

}  // namespace

std::vector<ParityCase> mlp_cases() {
  std::vector<ParityCase> cases;
  for (const MlpParams& params :
       {MlpParams{.hidden_size = 256, .intermediate_size = 512},
        MlpParams{.hidden_size = 256, .intermediate_size = 512, .gate = MlpParams::Gate::GeluTanh},
        MlpParams{.hidden_size = 256, .intermediate_size = 512, .limit = 0.25F},
        MlpParams{.hidden_size = 288, .intermediate_size = 352}}) {
    const bool is_odd = params.hidden_size == 288;
    const bool is_gelu = params.gate == MlpParams::Gate::GeluTanh;
    const bool is_limited = params.limit > 0;
    cases.push_back({.name = str(params.hidden_size, " by ", params.intermediate_size,
                                 is_gelu      ? ", GELU"
                                 : is_limited ? ", limited"
                                              : ""),
                     .role = Role::Mlp,
                     .params = params,
                     .build = [params](OperatorBench& bench) { return build_mlp(bench, params); },
                     .tolerance = {kF32Chain, kF32Chain, kHalfChain, kInt8Chain},
                     .block = is_odd ? 32 : 256,
                     .types = is_gelu || is_limited ? Types::Few : Types::Every});
  }
  return cases;
}

std::vector<ParityCase> router_cases() {
  const RouterParams plain = {.hidden_size = 256, .num_experts = 16, .top_k = 4};
  RouterParams normalized = plain;
  normalized.hidden_size = 288;
  normalized.num_experts = 11;
  normalized.normalize = true;
  normalized.scaling_factor = 2.5F;
  RouterParams groups = plain;
  groups.method = Method::GroupLimitedGreedy;
  groups.num_groups = 4;
  groups.top_k_groups = 2;
  RouterParams sigmoid = groups;
  sigmoid.scoring = Scoring::Sigmoid;
  sigmoid.method = Method::NoauxTc;
  sigmoid.normalize = true;
  RouterParams one_group = sigmoid;
  one_group.num_groups = one_group.top_k_groups = 1;
  RouterParams biased = normalized;
  biased.bias = true;
  RouterParams softplus = one_group;
  softplus.scoring = Scoring::SqrtSoftplus;
  softplus.scaling_factor = 1.5F;
  RouterParams table = softplus;
  table.hash_vocab_size = kParityVocab;
  return {router_case("softmax", plain, Types::Every),
          router_case("softmax, logits with bias, normalized", biased, Types::Few),
          router_case("softmax, 11 experts, normalized", normalized, Types::Few),
          router_case("softmax, best 2 of 4 groups", groups, Types::Few),
          router_case("sigmoid, bias, best 2 of 4 groups", sigmoid, Types::Few),
          router_case("sigmoid, bias, one group", one_group, Types::Few),
          router_case("softplus, bias, one group", softplus, Types::Few),
          router_case("softplus, experts by token", table, Types::Few)};
}

std::vector<ParityCase> experts_cases() {
  struct Kind {
    ExpertsParams params;
    std::int64_t block;
    Columns columns = Columns::InOrder;
  };
  // With two experts every token uses both experts: 96 rows per expert.
  const std::vector<Kind> kinds = {
      {{.num_experts = 6, .top_k = 3, .hidden_size = 256, .intermediate_size = 256}, 256},
      {{.num_experts = 6, .top_k = 3, .hidden_size = 288, .intermediate_size = 96}, 32},
      {{.num_experts = 2, .top_k = 2, .hidden_size = 256, .intermediate_size = 256}, 256},
      {{.num_experts = 6,
        .top_k = 3,
        .hidden_size = 288,
        .intermediate_size = 96,
        .bias = true,
        .swiglu_limit = 0.5F},
       32},
      {{.num_experts = 2,
        .top_k = 2,
        .hidden_size = 256,
        .intermediate_size = 256,
        .bias = true,
        .swiglu_limit = 0.5F},
       256},
      {{.num_experts = 6,
        .top_k = 3,
        .hidden_size = 288,
        .intermediate_size = 96,
        .swiglu_limit = 0.25F,
        .limits_silu = true},
       32},
      {{.num_experts = 2,
        .top_k = 2,
        .hidden_size = 256,
        .intermediate_size = 256,
        .swiglu_limit = 0.25F,
        .limits_silu = true},
       256},
      {{.num_experts = 6, .top_k = 3, .hidden_size = 256, .intermediate_size = 512},
       256,
       Columns::OneOrder},
      {{.num_experts = 2, .top_k = 2, .hidden_size = 256, .intermediate_size = 256},
       256,
       Columns::TwoOrders}};
  std::vector<ParityCase> cases;
  for (const Kind& kind : kinds) {
    const ExpertsParams params = kind.params;
    const Columns columns = kind.columns;
    cases.push_back(
        {.name =
             str(params.num_experts, " of ", params.hidden_size, " by ", params.intermediate_size,
                 params.bias                     ? ", biased and clamped"
                 : params.limits_silu            ? ", limited"
                 : columns == Columns::OneOrder  ? ", columns in one order"
                 : columns == Columns::TwoOrders ? ", columns in two orders"
                                                 : ""),
         .role = Role::Experts,
         .params = params,
         .build = [=](OperatorBench& bench) { return build_experts(bench, params, columns); },
         .tolerance = {kF32Chain, kF32Chain, kHalfChain, kInt8Chain},
         .block = kind.block,
         .types = columns == Columns::InOrder ? Types::Every : Types::Few,
         .may_reject = columns == Columns::TwoOrders});
  }
  return cases;
}

std::vector<ParityCase> moe_cases() {
  const std::vector<MoeCase> kinds = {
      {"experts alone", "", false, 256, 256, 256, Types::Every},
      {"with shared experts", "shared_experts", false, 288, 96, 32, Types::Few},
      {"with a gated shared expert", "shared_expert", true, 256, 256, 256, Types::Few},
      {"with scaled inputs", "shared_expert", false, 256, 256, 256, Types::Few, true}};
  std::vector<ParityCase> cases;
  for (const MoeCase& kind : kinds) {
    cases.push_back({.name = kind.name,
                     .role = Role::Moe,
                     .params = NoParams{},
                     .build = [kind](OperatorBench& bench) { return build_moe(bench, kind); },
                     .tolerance = {kF32Chain, kF32Chain, kHalfChain, kInt8Chain},
                     .block = kind.block,
                     .types = kind.types});
  }
  return cases;
}

}  // namespace graft::ops::testing
