#include "graft/kernels/cuda/formats/panels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "graft/packing/pack_panel.h"
#include "graft/packing/panel_layout.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using packing::kPanelRows;
using testing::DeviceArray;
using testing::Floats;
using testing::num_different;
using testing::Random;
using Bytes = std::vector<std::byte>;

struct StackShape {
  std::int64_t num_matrices;
  std::int64_t rows;
  std::int64_t cols;

  std::int64_t size() const { return num_matrices * rows * cols; }
};

// Stored weights with one scale per row and chunk; the scales are empty except for FP8.
struct StoredStack {
  DType type;
  StackShape shape;
  Bytes bytes;
  Floats scales;  // [num_matrices, rows, cols / chunk]
};

std::int64_t chunk_of(DType type) {
  return packing::chunk_cols(packing::packed_format(type));
}

bool has_scales(DType type) {
  return packing::packed_format(type).scale == packing::PackedFormat::Scale::F32;
}

StoredStack make_stack(DType type, StackShape shape, Bytes bytes) {
  StoredStack stack = {type, shape, std::move(bytes), {}};
  if (has_scales(type)) stack.scales = Random(7).floats(shape.size() / chunk_of(type));
  return stack;
}

Bytes random_bytes(DType type, StackShape shape) {
  Random random(static_cast<unsigned>(type) + 1);
  Bytes bytes(bytes_of(type, shape.size()));
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

// Panels of all matrices, one after another.
Bytes pack(const StoredStack& stack) {
  const auto& [num_matrices, rows, cols] = stack.shape;
  const auto row_bytes = static_cast<std::int64_t>(bytes_of(stack.type, cols));
  const std::int64_t panel_bytes = packing::panel_bytes(packing::packed_format(stack.type), cols);
  Bytes panels(
      static_cast<std::size_t>(num_matrices * packing::packed_bytes(stack.type, rows, cols)));
  std::byte* panel = panels.data();
  for (std::int64_t matrix = 0; matrix < num_matrices; ++matrix) {
    for (std::int64_t row = 0; row < rows; row += kPanelRows, panel += panel_bytes) {
      const std::int64_t first = matrix * rows + row;
      quant::StoredRows stored = {.data = stack.bytes.data() + first * row_bytes,
                                  .rows = std::min(kPanelRows, rows - row),
                                  .cols = cols,
                                  .stride = row_bytes};
      std::vector<const float*> scales;
      if (!stack.scales.empty()) {
        for (std::int64_t i = 0; i < stored.rows; ++i)
          scales.push_back(stack.scales.data() + (first + i) * (cols / chunk_of(stack.type)));
        stored.scales = scales.data();
        stored.cols_per_scale = chunk_of(stack.type);
      }
      packing::pack_panel(stack.type, stored, quant::reference_codecs(), panel);
    }
  }
  return panels;
}

const quant::Codec& codec(DType type) {
  return quant::reference_codecs()[static_cast<std::size_t>(type)];
}

// What panels keep of the stored weights.
Floats values_of(const StoredStack& stack) {
  Floats values(static_cast<std::size_t>(stack.shape.size()));
  codec(stack.type).decode(stack.bytes.data(), values.data(), values.size());
  if (stack.type == DType::F16) {
    Bytes rounded(2 * values.size());
    codec(DType::BF16).encode(values.data(), rounded.data(), values.size());
    codec(DType::BF16).decode(rounded.data(), values.data(), values.size());
  }
  for (std::size_t i = 0; i < values.size() && !stack.scales.empty(); ++i)
    values[i] *= stack.scales[i / static_cast<std::size_t>(chunk_of(stack.type))];
  return values;
}

// As F16; finite values saturate.
Floats as_f16(Floats values) {
  for (float& value : values) {
    if (std::isfinite(value)) value = std::clamp(value, -65504.0F, 65504.0F);
  }
  Bytes halves(2 * values.size());
  codec(DType::F16).encode(values.data(), halves.data(), values.size());
  codec(DType::F16).decode(halves.data(), values.data(), values.size());
  return values;
}

void expect_unpacked(const StoredStack& stack) {
  const auto& [num_matrices, rows, cols] = stack.shape;
  SCOPED_TRACE(::testing::Message() << num_matrices << " of " << rows << " x " << cols);
  const DeviceArray<std::byte> panels(pack(stack));
  const PanelStack on_device = {stack.type, panels.get(), num_matrices, rows, cols};
  const Floats want = values_of(stack);
  const DeviceArray<float> floats(want.size());
  unpack_panels(on_device, floats.get(), nullptr);
  EXPECT_EQ(num_different(floats.download(), want), 0U);
  const DeviceArray<Half> halves(want.size());
  unpack_panels(on_device, halves.get(), nullptr);
  Floats got;
  for (const Half half : halves.download())
    got.push_back(testing::f16_value(half));
  EXPECT_EQ(num_different(got, as_f16(want)), 0U);
}

class UnpackPanels : public testing::GpuTest, public ::testing::WithParamInterface<DType> {};

TEST_P(UnpackPanels, MatchesCodec) {
  const DType type = GetParam();
  ASSERT_TRUE(can_unpack_panels(type));
  const std::int64_t chunk = chunk_of(type);
  for (const StackShape& shape :
       {StackShape{3, 37, chunk}, StackShape{2, 16, 3 * chunk}, StackShape{2, 5, 2048},
        StackShape{1, 48, 2048}, StackShape{1, 1, 5 * chunk}}) {
    testing::TestMatrix weights =
        testing::random_matrix(type, shape.num_matrices * shape.rows, shape.cols, 3);
    expect_unpacked(make_stack(type, shape, std::move(weights.bytes)));
  }
}

// Scales of infinity and NaN, values beyond the range of F16, codes that no encoder writes.
TEST_P(UnpackPanels, MatchesCodecForAnyBytes) {
  const DType type = GetParam();
  const StackShape shape = {2, 40, 3 * chunk_of(type)};
  expect_unpacked(make_stack(type, shape, random_bytes(type, shape)));
}

std::vector<DType> packed_types() {
  std::vector<DType> types;
  for (const packing::PackedType& row : packing::kPackedTypes)
    types.push_back(row.dtype);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Types,
                         UnpackPanels,
                         ::testing::ValuesIn(packed_types()),
                         [](const auto& param) { return testing::type_name(param.param); });

class UnpackNoPanels : public testing::GpuTest {};

TEST_F(UnpackNoPanels, SkipsEmptyStacks) {
  Half* const none = nullptr;
  unpack_panels({.dtype = DType::Q4_K, .rows = 16, .cols = 256}, none, nullptr);
  unpack_panels({.dtype = DType::Q4_K, .num_matrices = 2, .cols = 256}, none, nullptr);
  unpack_panels({.dtype = DType::Q4_K, .num_matrices = 2, .rows = 16}, none, nullptr);
  EXPECT_FALSE(can_unpack_panels(DType::F32));
  EXPECT_FALSE(can_unpack_panels(DType::NVFP4));
}

}  // namespace
}  // namespace graft::kernels::cuda
