#include "graft/kernels/cuda/formats/decode.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "graft/quant/fp8_scale.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::num_different;
using testing::Random;

class DecodeType : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

// Random bytes, including scales of infinity and NaN and codes that no encoder writes.
TEST_P(DecodeType, MatchesCodec) {
  const DType type = GetParam();
  ASSERT_TRUE(can_decode(type));
  const std::int64_t rows = 37;
  const std::int64_t cols = is_quantized(type) ? 5 * info(type).block_elems : 51;
  Random random(static_cast<unsigned>(type) + 1);
  std::vector<std::byte> bytes(bytes_of(type, rows * cols));
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random.below(256));
  Floats want(static_cast<std::size_t>(rows * cols));
  quant::reference_codecs()[static_cast<std::size_t>(type)].decode(bytes.data(), want.data(),
                                                                   want.size());
  const DeviceArray<std::byte> data(bytes);
  const Matrix matrix = {.dtype = type, .data = data.get(), .rows = rows, .cols = cols};
  const DeviceArray<float> out(want.size());
  decode_rows(matrix, 0, rows, out.get(), nullptr);
  EXPECT_EQ(num_different(out.download(), want), 0U);

  // The last row alone, and rows by id.
  const DeviceArray<float> last(static_cast<std::size_t>(cols));
  decode_rows(matrix, rows - 1, 1, last.get(), nullptr);
  EXPECT_EQ(num_different(last.download(), {want.end() - cols, want.end()}), 0U);
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{36, 0, 17, 17, -1, 37});
  const DeviceArray<float> found(static_cast<std::size_t>(6 * cols));
  look_up_rows(matrix, ids.get(), 6, found.get(), nullptr);
  Floats rows_wanted;
  for (const std::int64_t row : {36, 0, 17, 17})
    rows_wanted.insert(rows_wanted.end(), want.begin() + row * cols,
                       want.begin() + (row + 1) * cols);
  rows_wanted.resize(static_cast<std::size_t>(6 * cols), NAN);
  EXPECT_EQ(num_different(found.download(), rows_wanted), 0U);
}

TEST_P(DecodeType, MatchesF16Codec) {
  const DType type = GetParam();
  const std::int64_t rows = 5;
  const std::int64_t cols = is_quantized(type) ? 2 * info(type).block_elems : 24;
  const testing::TestMatrix weights = testing::random_matrix(type, rows, cols, 3);
  const DeviceArray<std::byte> data(weights.bytes);
  const DeviceArray<Half> out(weights.values.size());
  decode_rows_f16({.dtype = type, .data = data.get(), .rows = rows, .cols = cols}, 0, rows,
                  out.get(), nullptr);
  std::vector<std::byte> want(weights.values.size() * 2);
  quant::reference_codecs()[static_cast<std::size_t>(DType::F16)].encode(
      weights.values.data(), want.data(), weights.values.size());
  const std::vector<Half> got = out.download();
  EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         DecodeType,
                         ::testing::ValuesIn(testing::weight_types()),
                         [](const auto& param) { return testing::type_name(param.param); });

class DecodeF16 : public testing::GpuTest {};

TEST_F(DecodeF16, FiniteValuesSaturate) {
  // 65520 is the tie between the largest F16 and infinity. Covers a full run and a partial one.
  const Floats values = {1.0F,     65519.0F,  65520.0F, -65520.0F, 1e30F, -3.4e38F,
                         INFINITY, -INFINITY, NAN,      1e30F,     1e-8F};
  const Floats want = {1.0F,     65504.0F,  65504.0F, -65504.0F, 65504.0F, -65504.0F,
                       INFINITY, -INFINITY, NAN,      65504.0F,  0.0F};
  const auto cols = static_cast<std::int64_t>(values.size());
  const DeviceArray<float> data(values);
  const DeviceArray<Half> out(values.size());
  decode_rows_f16({.dtype = DType::F32, .data = data.get(), .rows = 1, .cols = cols}, 0, 1,
                  out.get(), nullptr);
  Floats got;
  for (const Half half : out.download())
    got.push_back(testing::f16_value(half));
  EXPECT_EQ(num_different(got, want), 0U);
}

class DecodeScaled : public testing::GpuTest {};

// A stack of two matrices of 70 rows with one scale, one per row, tiles of 32 x 16 and of 16 x 12.
TEST_F(DecodeScaled, AppliesScales) {
  const std::vector<std::int64_t> shape = {2, 70, 100};
  const std::int64_t rows = 140;
  const std::int64_t cols = 100;
  const testing::TestMatrix weights = testing::random_matrix(DType::F8_E4M3, rows, cols, 4);
  const DeviceArray<std::byte> data(weights.bytes);
  const std::vector<std::vector<std::int64_t>> scale_shapes = {
      {1}, {2, 70, 1}, {2, 3, 7}, {2, 5, 9}};
  const std::vector<std::pair<std::int64_t, std::int64_t>> blocks = {
      {128, 128}, {128, 128}, {32, 16}, {16, 12}};
  for (std::size_t i = 0; i < scale_shapes.size(); ++i) {
    const auto layout =
        quant::ScaleLayout::fit(shape, scale_shapes[i], blocks[i].first, blocks[i].second);
    const Floats scales = Random(5).floats(layout.num_scales());
    Floats want = weights.values;
    layout.apply(want.data(), 0, rows, scales);
    const DeviceArray<float> values(scales);
    const Matrix matrix = {.dtype = DType::F8_E4M3,
                           .data = data.get(),
                           .rows = rows,
                           .cols = cols,
                           .scales = {.values = values.get(),
                                      .matrix_rows = layout.matrix_rows,
                                      .tile_rows = layout.tile_rows,
                                      .tile_cols = layout.tile_cols,
                                      .scale_cols = layout.scale_cols}};
    const DeviceArray<float> out(want.size());
    decode_rows(matrix, 0, rows, out.get(), nullptr);
    EXPECT_EQ(num_different(out.download(), want), 0U) << "layout " << i;
  }
}

TEST_F(DecodeScaled, ZeroRows) {
  decode_rows({.dtype = DType::Q4_K, .rows = 4, .cols = 256}, 2, 0, nullptr, nullptr);
  EXPECT_FALSE(can_decode(DType::I32));
}

}  // namespace
}  // namespace graft::kernels::cuda
