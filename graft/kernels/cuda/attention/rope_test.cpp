#include "graft/kernels/cuda/attention/rope.h"

#include <cmath>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class RopeKernels : public testing::GpuTest {};

Floats frequencies(std::int64_t rotary_dim, double theta) {
  Floats values;
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    const double exponent = static_cast<double>(2 * i) / static_cast<double>(rotary_dim);
    values.push_back(static_cast<float>(1.0 / std::pow(theta, exponent)));
  }
  return values;
}

// The same in double precision.
void rotate_reference(Floats& x,
                      std::int64_t stride,
                      std::int64_t offset,
                      const RotatedHeads& heads,
                      const RopeConfig& rope,
                      const Floats& inv_freq,
                      const std::vector<std::int32_t>& positions) {
  const std::int64_t half = rope.rotary_dim / 2;
  for (std::size_t row = 0; row < positions.size(); ++row) {
    const std::int64_t position = positions[row];
    Floats freq = inv_freq;
    if (rope.dynamic && position + 1 > rope.max_position_embeddings) {
      const auto dim = static_cast<double>(rope.rotary_dim);
      const double ntk_factor = rope.factor * static_cast<double>(position + 1) /
                                    static_cast<double>(rope.max_position_embeddings) -
                                (rope.factor - 1.0);
      freq = frequencies(rope.rotary_dim, rope.theta * std::pow(ntk_factor, dim / (dim - 2.0)));
    }
    for (std::int64_t head = 0; head < heads.num_heads; ++head) {
      float* values =
          x.data() + static_cast<std::int64_t>(row) * stride + offset + head * heads.head_dim;
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<float>(position) * freq[static_cast<std::size_t>(i)];
        float& first = values[rope.interleaved ? 2 * i : i];
        float& second = values[rope.interleaved ? 2 * i + 1 : i + half];
        const double a = first;
        const double b = second;
        first = static_cast<float>((a * std::cos(angle) - b * std::sin(angle)) * rope.magnitude);
        second = static_cast<float>((b * std::cos(angle) + a * std::sin(angle)) * rope.magnitude);
      }
    }
  }
}

// Heads of 10 values of which 6 rotate, at column 2 of rows of 40.
TEST_F(RopeKernels, RotatesAllVariants) {
  const std::vector<std::int32_t> positions = {0, 1, 2, 31, 32, 33, 1000, 131071};
  const auto rows = static_cast<std::int64_t>(positions.size());
  for (const bool interleaved : {false, true}) {
    for (const bool dynamic : {false, true}) {
      const RotatedHeads heads = {.num_heads = 3, .head_dim = 10};
      const Floats inv_freq = frequencies(6, 10000.0);
      const DeviceArray<float> inv_freq_data(inv_freq);
      const RopeConfig rope = {.rotary_dim = 6,
                               .inv_freq = inv_freq_data.get(),
                               .magnitude = 1.25F,
                               .interleaved = interleaved,
                               .dynamic = dynamic,
                               .theta = 10000.0,
                               .factor = 2.0,
                               .max_position_embeddings = 32};
      Floats x = Random(7).floats(rows * 40);
      const DeviceArray<float> values(x);
      const DeviceArray<std::int32_t> position_data(positions);
      rotate({values.get() + 2, 40}, rope, position_data.get(), rows, heads, nullptr);
      rotate_reference(x, 40, 2, heads, rope, inv_freq, positions);
      EXPECT_LT(relative_error(values.download(), x), 1e-6) << interleaved << dynamic;
    }
  }
}

// LongRoPE: flagged positions have other frequencies.
TEST_F(RopeKernels, SelectsFrequenciesByTheFlagOfThePosition) {
  constexpr std::int32_t kFlag = 1 << 30;
  const RotatedHeads heads = {.num_heads = 3, .head_dim = 10};
  const Floats short_freq = frequencies(6, 10000.0);
  const Floats long_freq = frequencies(6, 70000.0);
  const DeviceArray<float> short_data(short_freq);
  const DeviceArray<float> long_data(long_freq);
  const RopeConfig rope = {.rotary_dim = 6,
                           .inv_freq = short_data.get(),
                           .long_inv_freq = long_data.get(),
                           .long_flag = kFlag};
  Floats x = Random(7).floats(2 * 40);
  const DeviceArray<float> values(x);
  const DeviceArray<std::int32_t> positions(std::vector<std::int32_t>{1000, 1000 + kFlag});
  rotate({values.get() + 2, 40}, rope, positions.get(), 2, heads, nullptr);
  Floats second(x.begin() + 40, x.end());
  x.resize(40);
  rotate_reference(x, 40, 2, heads, rope, short_freq, {1000});
  rotate_reference(second, 40, 2, heads, rope, long_freq, {1000});
  x.insert(x.end(), second.begin(), second.end());
  EXPECT_LT(relative_error(values.download(), x), 1e-6);
}

// Full rotation of 128-dim heads; more pairs than one block handles.
TEST_F(RopeKernels, RotatesManyHeads) {
  const RotatedHeads heads = {.num_heads = 40, .head_dim = 128};
  const Floats inv_freq = frequencies(128, 500000.0);
  const DeviceArray<float> inv_freq_data(inv_freq);
  const RopeConfig rope = {.rotary_dim = 128, .inv_freq = inv_freq_data.get()};
  const std::vector<std::int32_t> positions = {4095, 17, 17};
  Floats x = Random(8).floats(3 * 5120);
  const DeviceArray<float> values(x);
  const DeviceArray<std::int32_t> position_data(positions);
  rotate({values.get(), 5120}, rope, position_data.get(), 3, heads, nullptr);
  rotate_reference(x, 5120, 0, heads, rope, inv_freq, positions);
  EXPECT_LT(relative_error(values.download(), x), 1e-6);
}

}  // namespace
}  // namespace graft::kernels::cuda
