#include "graft/kernels/cuda/row_scales.h"

#include <cmath>
#include <vector>

#include "graft/testing/cuda/device.cuh"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

class RowScales : public testing::GpuTest {};

TEST_F(RowScales, MoveFactorsIntoTheRows) {
  constexpr std::int64_t kCols = 300;
  const Floats x = Random(1).floats(3 * kCols);
  const DeviceArray<float> in(x);
  const DeviceArray<float> factors(Floats{0.5F, -2.0F, 0.0F});
  const DeviceArray<float> out(x.size());
  apply_factors({in.get(), kCols}, factors.get(), {out.get(), kCols}, 3, kCols, nullptr);
  const Floats got = out.download();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], x[i] * (i < kCols ? 0.5F : i < 2 * kCols ? -2.0F : 0.0F)) << i;
  EXPECT_EQ(factors.download(), (Floats{1.0F, 1.0F, 1.0F}));
}

TEST_F(RowScales, ScaleByPosition) {
  constexpr std::int64_t kCols = 70;
  const std::vector<std::int32_t> positions = {0, 14, 15, 16, 100000};
  const Floats x = Random(2).floats(5 * kCols);
  Floats want = x;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double steps = std::floor((positions[i / kCols] + 1.0) / 16.0);
    want[i] = static_cast<float>(want[i] * (1.0 + 0.1 * std::log(1.0 + steps)));
  }
  const DeviceArray<float> y(x);
  const DeviceArray<std::int32_t> at(positions);
  scale_by_position({y.get(), kCols}, at.get(), {.floor = 16, .scale = 0.1F}, 5, kCols, nullptr);
  EXPECT_LE(relative_error(y.download(), want), 1e-6);
}

}  // namespace
}  // namespace graft::kernels::cuda
