#include <complex>

#include <gtest/gtest.h>

#include "graft/testing/ops.h"

namespace graft::ops::cpu {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kCols = 40;  // 3 heads of 12 from column 4 on

RopeParams params_of(std::int64_t rotary_dim, bool interleaved) {
  RopeParams params;
  params.rotary_dim = rotary_dim;
  params.interleaved = interleaved;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    params.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -exponent)));
  }
  return params;
}

Floats rotated(const RopeParams& params, const std::vector<std::int32_t>& positions, Floats x) {
  ThreadPool pool(2);
  Workspace workspace;
  Batch batch;
  batch.positions = positions;
  Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
  TestModel model;
  auto& rope = model.add<Rope>("cpu.rope", "rope", params);
  rope.forward(view(x, static_cast<std::int64_t>(positions.size()), kCols),
               {.num_heads = 3, .head_dim = 12, .offset = 4}, pass);
  return x;
}

// The reference: rotates one head as complex numbers.
void rotate(const RopeParams& params, std::int32_t position, double* head) {
  const std::size_t half = params.inv_freq.size();
  for (std::size_t i = 0; i < half; ++i) {
    double& a = head[params.interleaved ? 2 * i : i];
    double& b = head[params.interleaved ? 2 * i + 1 : i + half];
    const double angle = static_cast<double>(position) * params.inv_freq[i];
    const auto turned = std::complex(a, b) * std::polar<double>(params.magnitude, angle);
    a = turned.real();
    b = turned.imag();
  }
}

class RopePairs : public ::testing::TestWithParam<std::tuple<bool, std::int64_t>> {};

TEST_P(RopePairs, AreRotatedAndOtherColumnsUnchanged) {
  const std::vector<std::int32_t> positions = {0, 5, 1234};
  const Floats x = Random().floats(3 * kCols);
  const auto& [interleaved, rotary_dim] = GetParam();
  RopeParams params = params_of(rotary_dim, interleaved);
  params.magnitude = 1.25F;
  Doubles want = widen(x);
  for (std::size_t t = 0; t < 3; ++t) {
    for (std::size_t head = 0; head < 3; ++head)
      rotate(params, positions[t], want.data() + t * kCols + 4 + head * 12);
  }
  EXPECT_LT(relative_error(rotated(params, positions, x), want), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(RopeCpu,
                         RopePairs,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(12, 8)));

TEST(RopeCpu, DynamicNtkScalesByTheTokensPosition) {
  RopeParams dynamic = params_of(12, false);
  dynamic.dynamic = true;
  dynamic.factor = 2.0;
  dynamic.max_position_embeddings = 100;
  const Floats x = Random().floats(2 * kCols);
  // Position 99 is the last of the trained context, 100 the first past it.
  RopeParams stretched = params_of(12, false);
  const double theta = 10000.0 * std::pow(2.0 * 101 / 100 - 1.0, 12.0 / 10.0);
  for (std::size_t i = 0; i < stretched.inv_freq.size(); ++i)
    stretched.inv_freq[i] = static_cast<float>(std::pow(theta, -static_cast<double>(2 * i) / 12.0));
  const Floats got = rotated(dynamic, {99, 100}, x);
  const Floats plain = rotated(params_of(12, false), {99, 100}, x);
  const Floats far = rotated(stretched, {99, 100}, x);
  EXPECT_EQ(Floats(got.begin(), got.begin() + kCols), Floats(plain.begin(), plain.begin() + kCols));
  EXPECT_LT(relative_error(Floats(got.begin() + kCols, got.end()),
                           Floats(far.begin() + kCols, far.end())),
            1e-5);
}

TEST(RopeCpu, LongRopeSelectsFrequenciesByTheFlagOfThePosition) {
  RopeParams both = params_of(12, false);
  RopeParams only_long = both;
  for (float& frequency : only_long.inv_freq)
    frequency /= 3.0F;
  both.long_inv_freq = only_long.inv_freq;
  const Floats x = Random().floats(2 * kCols);
  const Floats got = rotated(both, {700, 700 + kLongRopeFlag}, x);
  const Floats short_rows = rotated(params_of(12, false), {700, 700}, x);
  const Floats long_rows = rotated(only_long, {700, 700}, x);
  EXPECT_EQ(Floats(got.begin(), got.begin() + kCols),
            Floats(short_rows.begin(), short_rows.begin() + kCols));
  EXPECT_EQ(Floats(got.begin() + kCols, got.end()),
            Floats(long_rows.begin() + kCols, long_rows.end()));
}

// Angles and products are rounded as in the models' reference code.
TEST(RopeCpu, IsBitIdenticalToTheFormula) {
  constexpr std::int64_t kDim = 88;  // full vectors and a remainder
  for (const bool interleaved : {false, true}) {
    const RopeParams params = params_of(kDim, interleaved);
    const std::size_t half = params.inv_freq.size();
    TestModel model;
    auto& rope = model.add<Rope>("cpu.rope", "rope", params);
    auto& of_another_layer = model.add<Rope>("cpu.rope", "again", params);
    ThreadPool pool(2);
    Workspace workspace;
    // Positions change between passes and repeat.
    for (const std::int32_t position : {7, 70000, 7}) {
      Batch batch;
      batch.positions = {position};
      Pass pass = {.batch = batch, .pool = pool, .workspace = workspace};
      const Floats x = Random().floats(kDim);
      Floats want = x;
      for (std::size_t i = 0; i < half; ++i) {
        const double angle = static_cast<float>(position) * params.inv_freq[i];
        const auto c = static_cast<float>(std::cos(angle));
        const auto s = static_cast<float>(std::sin(angle));
        float& a = want[interleaved ? 2 * i : i];
        float& b = want[interleaved ? 2 * i + 1 : i + half];
        const float turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
      }
      for (Rope* op : {&rope, &of_another_layer}) {
        Floats got = x;
        op->forward(view(got, 1, kDim), {.num_heads = 1, .head_dim = kDim}, pass);
        EXPECT_TRUE(same_bits({{0, got}}, {{0, want}})) << position;
      }
    }
  }
}

}  // namespace
}  // namespace graft::ops::cpu
