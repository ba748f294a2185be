#include "graft/kernels/cuda/linear/gemm_cublaslt.h"

#include <vector>

#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using testing::TestMatrix;

class LinearCublasLt : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

// The third product reuses the algorithm of the second; y has a row stride above `out`.
TEST_P(LinearCublasLt, MatchesDoublePrecision) {
  if (!has_cublaslt()) GTEST_SKIP() << "no libcublasLt";
  const DType type = GetParam();
  const std::int64_t rows = 37;
  const std::int64_t out = 72;
  const std::int64_t in = 136;
  const std::int64_t y_stride = 80;
  const TestMatrix weights = testing::random_matrix(type, out, in, 71);
  const TestMatrix x = testing::random_matrix(type, rows, in, 72);
  const Floats bias = Random(73).floats(out);
  const DeviceArray<std::byte> weight_data(weights.bytes);
  const DeviceArray<std::byte> x_data(x.bytes);
  const DeviceArray<float> bias_data(bias);
  const DeviceArray<std::byte> workspace(kCublasLtWorkspace);
  for (const bool has_bias : {false, true, true}) {
    const DeviceArray<float> y(static_cast<std::size_t>(rows * y_stride));
    ASSERT_TRUE(gemm_cublaslt({.dtype = type,
                               .weight = weight_data.get(),
                               .x = x_data.get(),
                               .x_stride = in,
                               .y = {y.get(), y_stride},
                               .bias = has_bias ? bias_data.get() : nullptr,
                               .rows = rows,
                               .out = out,
                               .in = in},
                              workspace.get(), workspace.size(), nullptr));
    const Floats got = y.download();
    Floats got_rows;
    std::vector<double> want;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t o = 0; o < out; ++o) {
        double sum = has_bias ? bias[static_cast<std::size_t>(o)] : 0.0;
        for (std::int64_t i = 0; i < in; ++i)
          sum += static_cast<double>(x.values[static_cast<std::size_t>(row * in + i)]) *
                 weights.values[static_cast<std::size_t>(o * in + i)];
        want.push_back(sum);
        got_rows.push_back(got[static_cast<std::size_t>(row * y_stride + o)]);
      }
    }
    EXPECT_LT(relative_error(got_rows, want), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         LinearCublasLt,
                         ::testing::Values(DType::F32, DType::F16, DType::BF16),
                         [](const auto& param) { return testing::type_name(param.param); });

}  // namespace
}  // namespace graft::kernels::cuda
