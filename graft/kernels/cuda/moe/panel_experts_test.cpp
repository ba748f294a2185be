#include "graft/kernels/cuda/moe/panel_experts.h"

#include <algorithm>
#include <vector>

#include "graft/kernels/cuda/formats/panels.h"
#include "graft/packing/pack_panel.h"
#include "graft/packing/panel_layout.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using packing::kPanelRows;
using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

constexpr std::int64_t kNumExperts = 5;
constexpr std::int64_t kTopK = 3;
constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kInner = 256;

// The panels of kNumExperts random matrices, and their values as f32 rows.
struct Projection {
  Projection(DType type, std::int64_t rows, std::int64_t cols, unsigned seed)
      : dtype(type),
        panels(pack(type, rows, cols, seed)),
        values(static_cast<std::size_t>(kNumExperts * rows * cols)) {
    matrix_bytes = static_cast<std::size_t>(packing::packed_bytes(type, rows, cols));
    unpack_panels({.dtype = type,
                   .panels = panels.get(),
                   .num_matrices = kNumExperts,
                   .rows = rows,
                   .cols = cols},
                  values.get(), nullptr);
  }

  PanelMatrices matrices() const {
    return {.dtype = dtype, .panels = panels.get(), .matrix_bytes = matrix_bytes};
  }
  ExpertStack stack(std::int64_t rows, std::int64_t cols) const {
    return {.matrix = {.dtype = DType::F32, .data = values.get(), .cols = cols},
            .matrix_bytes = static_cast<std::size_t>(rows * cols) * sizeof(float)};
  }

  DType dtype;
  std::size_t matrix_bytes = 0;
  DeviceArray<std::byte> panels;
  DeviceArray<float> values;

 private:
  static std::vector<std::byte> pack(DType type,
                                     std::int64_t rows,
                                     std::int64_t cols,
                                     unsigned seed) {
    const testing::TestMatrix stored = testing::random_matrix(type, kNumExperts * rows, cols, seed);
    const auto row_bytes = static_cast<std::int64_t>(bytes_of(type, cols));
    const std::int64_t panel_bytes = packing::panel_bytes(packing::packed_format(type), cols);
    std::vector<std::byte> packed(
        static_cast<std::size_t>(kNumExperts * packing::packed_bytes(type, rows, cols)));
    std::byte* panel = packed.data();
    for (std::int64_t matrix = 0; matrix < kNumExperts; ++matrix) {
      for (std::int64_t row = 0; row < rows; row += kPanelRows, panel += panel_bytes) {
        packing::pack_panel(type,
                            {.data = stored.bytes.data() + (matrix * rows + row) * row_bytes,
                             .rows = std::min(kPanelRows, rows - row),
                             .cols = cols,
                             .stride = row_bytes},
                            quant::reference_codecs(), panel);
      }
    }
    return packed;
  }
};

struct RoutedCase {
  explicit RoutedCase(std::int64_t num_rows)
      : rows(num_rows),
        x(Random(61).floats(num_rows * kHidden)),
        ids(random_ids(num_rows)),
        weights(Random(63).floats(num_rows * kTopK)),
        y(Floats(static_cast<std::size_t>(num_rows * kHidden), 7.0F)) {}

  RoutedRows routed() const {
    return {.rows = rows,
            .x = {x.get(), kHidden},
            .expert_ids = ids.get(),
            .weights = weights.get(),
            .y = {y.get(), kHidden}};
  }

  std::int64_t rows;
  DeviceArray<float> x;
  DeviceArray<std::int32_t> ids;
  DeviceArray<float> weights;
  DeviceArray<float> y;

 private:
  // Some pairs have no expert, and the last row has none at all.
  static std::vector<std::int32_t> random_ids(std::int64_t num_rows) {
    std::vector<std::int32_t> ids = Random(62).ints(num_rows * kTopK, kNumExperts);
    for (std::size_t i = 0; i < ids.size(); i += 4)
      ids[i] = -1;
    if (num_rows > 1) std::fill_n(ids.end() - kTopK, kTopK, -1);
    return ids;
  }
};

class PanelExperts : public testing::GpuTest {};

TEST_F(PanelExperts, EqualRowsOfTheSameWeights) {
  for (const packing::PackedType& type : packing::kPackedTypes) {
    const Projection gate(type.dtype, kInner, kHidden, 64);
    const Projection up(type.dtype, kInner, kHidden, 65);
    const Projection down(type.dtype, kHidden, kInner, 66);
    const PanelExpertsJob job = {.top_k = kTopK,
                                 .hidden = kHidden,
                                 .intermediate = kInner,
                                 .gate = gate.matrices(),
                                 .up = up.matrices(),
                                 .down = down.matrices()};
    const ExpertsJob reference = {.num_experts = kNumExperts,
                                  .top_k = kTopK,
                                  .hidden = kHidden,
                                  .intermediate = kInner,
                                  .gate = gate.stack(kInner, kHidden),
                                  .up = up.stack(kInner, kHidden),
                                  .down = down.stack(kHidden, kInner),
                                  .use_int8 = false,
                                  .arithmetic = Arithmetic::F32};
    for (const std::int64_t rows : {1, 2, 9, 33}) {
      const RoutedCase test(rows);
      const DeviceArray<std::byte> scratch(
          std::max(panel_experts_bytes(job, rows), experts_bytes(reference, rows)));
      experts(reference, test.routed(), scratch.get(), nullptr);
      const Floats want = test.y.download();
      panel_experts(job, test.routed(), scratch.get(), nullptr);
      EXPECT_LT(relative_error(test.y.download(), want), 1e-5)
          << name(type.dtype) << ", " << rows << " rows";
    }
  }
}

TEST_F(PanelExperts, MapsExpertsToSlots) {
  const DeviceArray<std::int32_t> table(std::vector<std::int32_t>{-1, 2, 0, -1});
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{0, 1, 2, 3, -1, 1});
  const DeviceArray<std::int32_t> slots(std::vector<std::int32_t>(6, 9));
  map_to_slots(ids.get(), table.get(), slots.get(), 6, nullptr);
  EXPECT_EQ(slots.download(), (std::vector<std::int32_t>{-1, 2, 0, -1, -1, 2}));
  set_slot(table.get(), 1, -1, nullptr);
  set_slot(table.get(), 3, 2, nullptr);
  map_to_slots(ids.get(), table.get(), slots.get(), 6, nullptr);
  EXPECT_EQ(slots.download(), (std::vector<std::int32_t>{-1, -1, 0, 2, -1, -1}));
}

}  // namespace
}  // namespace graft::kernels::cuda
