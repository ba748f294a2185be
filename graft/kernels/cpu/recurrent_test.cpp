// Kernels of layers with a recurrent state against plain formulas in double, and bit for bit
// between the instruction sets.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graft/kernels/cpu/table.h"
#include "graft/testing/floats.h"

namespace graft::kernels::cpu {
namespace {

constexpr std::int64_t kSizes[] = {1, 7, 16, 17, 48, 64, 100, 128};

class RecurrentKernels : public testing::TestWithParam<const KernelTable*> {
 protected:
  static const MathTable& math() { return GetParam()->math; }
  static const MathTable& baseline() { return runnable_kernels()[0]->math; }
};

void expect_equal_bits(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

double logistic(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

TEST_P(RecurrentKernels, ConvolutionMatchesTheFormula) {
  constexpr std::int64_t kTaps = 4;
  for (const std::int64_t n : kSizes) {
    const Floats x = random_floats(kTaps * n);
    const Floats taps = random_floats(kTaps * n);
    std::vector<const float*> rows;
    for (std::int64_t tap = 0; tap < kTaps; ++tap)
      rows.push_back(x.data() + tap * n);
    Floats y(static_cast<std::size_t>(n));
    Floats reference = y;
    math().conv_silu(rows.data(), taps.data(), kTaps, y.data(), n);
    baseline().conv_silu(rows.data(), taps.data(), kTaps, reference.data(), n);
    expect_equal_bits(y, reference);
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t tap = 0; tap < kTaps; ++tap) {
        const auto at = static_cast<std::size_t>(tap * n + i);
        sum += double{taps[at]} * double{x[at]};
      }
      EXPECT_NEAR(y[static_cast<std::size_t>(i)], sum * logistic(sum), 1e-5);
    }
  }
}

TEST_P(RecurrentKernels, NormAndGateMatchTheFormulas) {
  for (const std::int64_t n : kSizes) {
    const Floats x = random_floats(n);
    Floats y = x;
    Floats reference = x;
    math().l2_norm(y.data(), n, 1e-6F, 0.5F);
    baseline().l2_norm(reference.data(), n, 1e-6F, 0.5F);
    expect_equal_bits(y, reference);
    double squares = 0;
    for (const float value : x)
      squares += double{value} * double{value};
    const Floats before = y;
    math().sigmoid_mul(x.data(), y.data(), n);
    baseline().sigmoid_mul(x.data(), reference.data(), n);
    expect_equal_bits(y, reference);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(before[i], 0.5 * x[i] / std::sqrt(squares + 1e-6), 1e-6);
      EXPECT_NEAR(y[i], before[i] * logistic(x[i]), 1e-6);
    }
  }
}

struct DeltaProblem {
  std::int64_t key_dim, cols, tokens;
  Floats q, k, v, decay, beta, state;

  DeltaProblem(std::int64_t keys, std::int64_t values, std::int64_t count)
      : key_dim(keys),
        cols(values),
        tokens(count),
        q(random_floats(count * keys)),
        k(random_floats(count * keys)),
        v(random_floats(count * values)),
        decay(random_floats(count)),
        beta(random_floats(count)),
        state(random_floats(keys * values)) {
    for (float& value : decay)
      value = std::exp(-std::abs(value));
    for (float& value : beta)
      value = static_cast<float>(logistic(value));
    for (float& value : k)
      value /= std::sqrt(static_cast<float>(keys));
  }

  // Of the tokens from `first` on.
  Floats run(const MathTable& table, Floats& states, std::int64_t first, std::int64_t count) const {
    Floats out(static_cast<std::size_t>(count * cols));
    table.delta_rule({.q = q.data() + first * key_dim,
                      .k = k.data() + first * key_dim,
                      .qk_stride = key_dim,
                      .v = v.data() + first * cols,
                      .v_stride = cols,
                      .decay = decay.data() + first,
                      .beta = beta.data() + first,
                      .gate_stride = 1,
                      .out = out.data(),
                      .out_stride = cols,
                      .state = states.data(),
                      .state_stride = cols,
                      .key_dim = key_dim,
                      .cols = cols,
                      .tokens = count});
    return out;
  }

  std::vector<double> formula(std::vector<double>& s) const {
    std::vector<double> out;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto at = [&](std::int64_t i) -> double& {
          return s[static_cast<std::size_t>(i * cols + c)];
        };
        const auto key = [&](const Floats& x, std::int64_t i) {
          return double{x[static_cast<std::size_t>(t * key_dim + i)]};
        };
        double memory = 0;
        for (std::int64_t i = 0; i < key_dim; ++i) {
          at(i) *= double{decay[static_cast<std::size_t>(t)]};
          memory += at(i) * key(k, i);
        }
        const double delta = (double{v[static_cast<std::size_t>(t * cols + c)]} - memory) *
                             double{beta[static_cast<std::size_t>(t)]};
        double sum = 0;
        for (std::int64_t i = 0; i < key_dim; ++i) {
          at(i) += key(k, i) * delta;
          sum += at(i) * key(q, i);
        }
        out.push_back(sum);
      }
    }
    return out;
  }
};

TEST_P(RecurrentKernels, DeltaRuleMatchesTheFormulaInAnyChunks) {
  constexpr std::int64_t kTokens = 11;
  for (const std::int64_t cols : kSizes) {
    for (const std::int64_t key_dim : {5, 32}) {
      const DeltaProblem problem(key_dim, cols, kTokens);
      Floats state = problem.state;
      const Floats out = problem.run(math(), state, 0, kTokens);
      Floats reference = problem.state;
      expect_equal_bits(out, problem.run(baseline(), reference, 0, kTokens));
      expect_equal_bits(state, reference);

      Floats chunked = problem.state;
      Floats parts = problem.run(math(), chunked, 0, 4);
      const Floats rest = problem.run(math(), chunked, 4, kTokens - 4);
      parts.insert(parts.end(), rest.begin(), rest.end());
      expect_equal_bits(parts, out);
      expect_equal_bits(chunked, state);

      std::vector<double> exact(problem.state.begin(), problem.state.end());
      const std::vector<double> want = problem.formula(exact);
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(out[i], want[i], 1e-4 * std::max(1.0, std::abs(want[i])));
      for (std::size_t i = 0; i < exact.size(); ++i)
        ASSERT_NEAR(state[i], exact[i], 1e-4 * std::max(1.0, std::abs(exact[i])));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         RecurrentKernels,
                         testing::ValuesIn(runnable_kernels().begin(), runnable_kernels().end()),
                         [](const auto& test) { return std::string(test.param->isa); });

}  // namespace
}  // namespace graft::kernels::cpu
