// Operators written against graft/plugin.h, compared with the reference: built-in operators of
// every role behind the interfaces of plugins, and an attention and an MLP that call their
// children.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "graft/ops/plugin/plugin.h"
#include "graft/plugin.h"
#include "graft/testing/parity/parity.h"

namespace graft::ops::testing {
namespace {

using plugin::ConstRows;
using plugin::Rows;

using MadeOperator = std::unique_ptr<plugin::Operator>;

double gate_function(plugin::MlpParams::Gate function, double x) {
  if (function == plugin::MlpParams::Gate::Silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// y = down(function(min(gate(x), limit)) * clamp(up(x), -limit, limit))
class PluginMlp final : public plugin::Mlp {
 public:
  explicit PluginMlp(const plugin::BuildContext& context)
      : inner_size_(context.params_as<plugin::MlpParams>().intermediate_size),
        function_(context.params_as<plugin::MlpParams>().gate),
        limit_(context.params_as<plugin::MlpParams>().limit),
        gate_proj_(context.child<plugin::Linear>("gate_proj")),
        up_proj_(context.child<plugin::Linear>("up_proj")),
        down_proj_(context.child<plugin::Linear>("down_proj")) {}

  void forward(ConstRows x, Rows y, plugin::Pass& pass) override {
    const Rows gate = pass.scratch(x.rows, inner_size_);
    const Rows up = pass.scratch(x.rows, inner_size_);
    gate_proj_->forward(x, gate, pass);
    up_proj_->forward(x, up, pass);
    pass.threads().parallel_for(static_cast<std::size_t>(x.rows), [&](std::size_t row) {
      float* inner = gate.row(static_cast<std::int64_t>(row));
      float* factors = up.row(static_cast<std::int64_t>(row));
      for (std::int64_t i = 0; i < inner_size_; ++i) {
        if (limit_ > 0) {
          inner[i] = std::min(inner[i], limit_);
          factors[i] = std::clamp(factors[i], -limit_, limit_);
        }
        inner[i] = static_cast<float>(gate_function(function_, inner[i])) * factors[i];
      }
    });
    down_proj_->forward(gate, y, pass);
  }

 private:
  std::int64_t inner_size_;
  plugin::MlpParams::Gate function_;
  float limit_;
  plugin::Linear* gate_proj_;
  plugin::Linear* up_proj_;
  plugin::Linear* down_proj_;
};

class PluginAttention final : public plugin::Attention {
 public:
  explicit PluginAttention(const plugin::BuildContext& context)
      : module_(context.module()),
        params_(context.params_as<plugin::AttentionParams>()),
        q_proj_(context.child<plugin::Linear>("q_proj")),
        k_proj_(context.child<plugin::Linear>("k_proj")),
        v_proj_(context.child<plugin::Linear>("v_proj")),
        o_proj_(context.child<plugin::Linear>("o_proj")),
        q_norm_(context.child<plugin::Norm>("q_norm")),
        k_norm_(context.child<plugin::Norm>("k_norm")),
        qk_norm_(context.child<plugin::Norm>("qk_norm")),
        rotary_emb_(context.child<plugin::Rope>("rotary_emb")),
        kv_cache_(context.child<plugin::KvCache>("kv_cache")) {}

  void load(plugin::Weights& weights) override {
    if (params_.sinks) sinks_ = weights.read(module_ + ".sinks", 1, params_.num_heads);
  }

  void forward(ConstRows x, Rows y, plugin::Pass& pass) override {
    const Rows q = project(x, *q_proj_, params_.num_heads, pass);
    const Rows k = project(x, *k_proj_, params_.num_key_value_heads, pass);
    const Rows v = project(x, *v_proj_, params_.num_key_value_heads, pass);
    norm_and_rotate(q, qk_norm_ != nullptr ? qk_norm_ : q_norm_, params_.num_heads, pass);
    norm_and_rotate(k, qk_norm_ != nullptr ? qk_norm_ : k_norm_, params_.num_key_value_heads, pass);
    kv_cache_->write(k, v, pass);

    const Rows heads = pass.scratch(x.rows, q.cols);
    const auto num_kv_heads = static_cast<std::size_t>(params_.num_key_value_heads);
    pass.threads().parallel_for(pass.sequences().size() * num_kv_heads, [&](std::size_t /*worker*/,
                                                                            std::size_t item) {
      attend(item / num_kv_heads, static_cast<std::int64_t>(item % num_kv_heads), q, heads, pass);
    });
    o_proj_->forward(heads, y, pass);
  }

 private:
  Rows project(ConstRows x, plugin::Linear& linear, std::int64_t num_heads, plugin::Pass& pass) {
    const Rows y = pass.scratch(x.rows, num_heads * params_.head_dim);
    linear.forward(x, y, pass);
    return y;
  }

  void norm_and_rotate(Rows x, plugin::Norm* norm, std::int64_t num_heads, plugin::Pass& pass) {
    const Rows heads = {.data = x.data, .rows = x.rows * num_heads, .cols = params_.head_dim};
    const Rows normed = params_.qk_norm_all_heads ? x : heads;
    if (norm != nullptr) norm->forward(normed, normed, pass);
    if (rotary_emb_ == nullptr) return;
    rotary_emb_->forward(x, {.num_heads = num_heads, .head_dim = params_.head_dim}, pass);
  }

  // The query heads of one key and value head, for all tokens of one sequence.
  void attend(std::size_t sequence,
              std::int64_t kv_head,
              Rows q,
              Rows out,
              const plugin::Pass& pass) const {
    const plugin::Sequence& tokens = pass.sequences()[sequence];
    const std::int64_t dim = params_.head_dim;
    const plugin::KvCache::Part part = {
        .begin = 0, .end = tokens.context_len, .first_col = kv_head * dim, .num_cols = dim};
    std::vector<float> keys(static_cast<std::size_t>(tokens.context_len * dim));
    std::vector<float> values(keys.size());
    kv_cache_->read_keys(sequence, part, keys.data(), pass);
    kv_cache_->read_values(sequence, part, values.data(), pass);
    const std::int64_t group = params_.num_heads / params_.num_key_value_heads;
    for (std::int64_t i = 0; i < tokens.num_tokens; ++i) {
      const std::int64_t position = tokens.context_len - tokens.num_tokens + i;
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const std::int64_t row = tokens.first_row + i;
        const float* sink = sinks_.empty() ? nullptr : &sinks_[static_cast<std::size_t>(head)];
        attend_one(q.row(row) + head * dim, keys, values, position, sink,
                   out.row(row) + head * dim);
      }
    }
  }

  double temperature(std::int64_t position) const {
    if (params_.temperature_floor == 0) return 1;
    const std::int64_t steps = (position + 1) / params_.temperature_floor;
    return 1 + double{params_.temperature_scale} * std::log1p(static_cast<double>(steps));
  }

  void attend_one(const float* query,
                  std::span<const float> keys,
                  std::span<const float> values,
                  std::int64_t position,
                  const float* sink,
                  float* out) const {
    const std::int64_t window = params_.sliding_window;
    const std::int64_t chunk = params_.chunk == 0 ? 0 : position / params_.chunk * params_.chunk;
    const std::int64_t first = window == 0 ? chunk : std::max(chunk, position + 1 - window);
    const double scale = double{params_.scale} * temperature(position);
    const auto dim = static_cast<std::size_t>(params_.head_dim);
    std::vector<double> scores;
    for (auto p = static_cast<std::size_t>(first); p <= static_cast<std::size_t>(position); ++p) {
      double score = 0;
      const float* key = &keys[p * dim];
      for (std::size_t i = 0; i < dim; ++i)
        score += double{query[i]} * double{key[i]};
      scores.push_back(score * scale);
    }
    const double max = std::ranges::max(scores);
    std::vector<double> sums_by_dim(dim);
    double* const sums = sums_by_dim.data();  // tests are not optimized: [] of a vector is a call
    double total = sink == nullptr ? 0 : std::exp(double{*sink} - max);
    for (std::size_t s = 0; s < scores.size(); ++s) {
      const double weight = std::exp(scores[s] - max);
      total += weight;
      const float* value = &values[(static_cast<std::size_t>(first) + s) * dim];
      for (std::size_t i = 0; i < dim; ++i)
        sums[i] += weight * double{value[i]};
    }
    for (std::size_t i = 0; i < dim; ++i)
      out[i] = static_cast<float>(sums[i] / total);
  }

  std::string module_;
  plugin::AttentionParams params_;
  std::vector<float> sinks_;  // [heads]; empty: none
  plugin::Linear* q_proj_;
  plugin::Linear* k_proj_;
  plugin::Linear* v_proj_;
  plugin::Linear* o_proj_;
  plugin::Norm* q_norm_;      // null: none
  plugin::Norm* k_norm_;      // null: none
  plugin::Norm* qk_norm_;     // null: none; instead of both
  plugin::Rope* rotary_emb_;  // null: none
  plugin::KvCache* kv_cache_;
};

template <class P>
bool has(const plugin::Params& params) {
  return std::holds_alternative<P>(params);
}

// The built-in operator of the role, seen and called through the interfaces of plugins.
template <class Op>
auto wraps(std::string name) {
  return [name = std::move(name)](const plugin::BuildContext& context) -> MadeOperator {
    return context.make<Op>(name);
  };
}

template <class Op>
MadeOperator make(const plugin::BuildContext& context) {
  return std::make_unique<Op>(context);
}

void add_operators(plugin::Registry& registry) {
  using plugin::Role;
  const auto add = [&](const char* name, Role role, const auto& make_one, const auto& fits) {
    registry.add({.name = name, .role = role, .fits = fits, .make = make_one});
  };
  const auto any = [](const plugin::Params& /*params*/) { return true; };
  add("test.embedding", Role::Embedding, wraps<plugin::Embedding>("cpu.embedding"), any);
  add("test.norm", Role::Norm, wraps<plugin::Norm>("cpu.rms_norm"), any);
  add("test.linear", Role::Linear, wraps<plugin::Linear>("cpu.linear"),
      [](const plugin::Params& params) {
        const auto* linear = std::get_if<plugin::LinearParams>(&params);
        return linear != nullptr && linear->groups == 1;
      });
  add("test.rope", Role::Rope, wraps<plugin::Rope>("cpu.rope"), any);
  add("test.mla", Role::Attention, wraps<plugin::Attention>("cpu.mla"), has<plugin::MlaParams>);
  add("test.moe", Role::Moe, wraps<plugin::Mlp>("cpu.moe"), any);
  add("test.router", Role::Router, wraps<plugin::Router>("cpu.router"), any);
  add("test.experts", Role::Experts, wraps<plugin::Experts>("cpu.experts"), any);
  add("test.mlp", Role::Mlp, make<PluginMlp>, any);
  const auto is_ungated = [](const plugin::Params& params) {
    const auto* attention = std::get_if<plugin::AttentionParams>(&params);
    return attention != nullptr && !attention->output_gate;
  };
  add("test.attention", Role::Attention, make<PluginAttention>, is_ungated);
}

constexpr const char* kPluginOperators[] = {"embedding", "norm",   "linear",  "rope", "mla",
                                            "moe",       "router", "experts", "mlp",  "attention"};

class PluginOperator : public ::testing::TestWithParam<const char*> {};

TEST_P(PluginOperator, MatchesTheReference) {
  Registry registry = builtin_operators();
  const std::size_t num_builtin = registry.all().size();
  add_plugin({.add_operators = add_operators}, registry);
  EXPECT_EQ(registry.all().size(), num_builtin + std::size(kPluginOperators));
  const OperatorInfo* op = registry.find(std::string("test.") + GetParam());
  ASSERT_NE(op, nullptr);
  EXPECT_FALSE(op->is_native);
  const ParityReport report = check_operator(registry, *op);
  EXPECT_TRUE(report.by_operator.contains(op->name)) << "no case fits " << op->name;
  for (const std::string& finding : report.findings)
    ADD_FAILURE() << finding;
}

INSTANTIATE_TEST_SUITE_P(Roles,
                         PluginOperator,
                         ::testing::ValuesIn(kPluginOperators),
                         [](const auto& role) { return std::string(role.param); });

// The error of building the module "model.norm" with an operator of a plugin.
std::string build_error(void (*add)(plugin::Registry&)) {
  Registry registry = builtin_operators();
  add_plugin({.add_operators = add}, registry);
  const Params params = NormParams{.size = 8};
  BuildContext context;
  context.module = "model.norm";
  context.params = &params;
  try {
    registry.all().back()->make(context);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PluginOperators, InvalidOperatorsAreRejected) {
  EXPECT_EQ(build_error([](plugin::Registry& registry) {
              registry.add({.name = "test.nothing",
                            .role = plugin::Role::Norm,
                            .make = [](const auto&) -> MadeOperator { return nullptr; }});
            }),
            "model.norm: test.nothing did not return an operator of role norm");
  EXPECT_EQ(
      build_error([](plugin::Registry& registry) {
        registry.add({.name = "test.wraps",
                      .role = plugin::Role::Norm,
                      .make = wraps<plugin::Norm>("cpu.linear")});
      }),
      "model.norm: operator 'cpu.linear' to wrap: not found on the CPU for this role and module");
}

TEST(PluginOperators, MissingChildrenAreNull) {
  EXPECT_EQ(build_error([](plugin::Registry& registry) {
              registry.add({.name = "test.child",
                            .role = plugin::Role::Norm,
                            .make = [](const plugin::BuildContext& context) -> MadeOperator {
                              EXPECT_EQ(context.child<plugin::Norm>("q_norm"), nullptr);
                              return context.make<plugin::Norm>("cpu.rms_norm");
                            }});
            }),
            "");
}

}  // namespace
}  // namespace graft::ops::testing
