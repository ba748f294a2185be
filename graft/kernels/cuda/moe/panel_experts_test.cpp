#include "graft/kernels/cuda/moe/panel_experts.h"

#include <algorithm>
#include <vector>

#include "graft/kernels/cuda/linear/panels/panel_gemm.h"
#include "graft/kernels/cuda/moe/panel_experts_mma.h"
#include "graft/testing/cuda/panels.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;

constexpr std::int64_t kNumExperts = 5;
constexpr std::int64_t kTopK = 3;
constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kInner = 256;

struct Projection : testing::PanelStackCase {
  Projection(DType type, std::int64_t num_rows, std::int64_t num_cols, unsigned seed)
      : PanelStackCase(type, kNumExperts, num_rows, num_cols, seed) {}

  PanelMatrices matrices() const {
    return {.dtype = dtype, .panels = panels.get(), .matrix_bytes = matrix_bytes};
  }
  ExpertStack stack() const {
    return {.matrix = {.dtype = DType::F32, .data = values.get(), .cols = cols},
            .matrix_bytes = static_cast<std::size_t>(rows * cols) * sizeof(float)};
  }
};

struct RoutedCase {
  explicit RoutedCase(std::int64_t num_rows)
      : rows(num_rows),
        x(Random(61).floats(num_rows * kHidden)),
        ids(random_ids(num_rows)),
        bias_ids(Random(60).ints(num_rows * kTopK, kNumExperts)),
        weights(Random(63).floats(num_rows * kTopK)),
        y(Floats(static_cast<std::size_t>(num_rows * kHidden), 7.0F)) {}

  RoutedRows routed() const {
    return {.rows = rows,
            .x = {x.get(), kHidden},
            .expert_ids = ids.get(),
            .bias_ids = bias_ids.get(),
            .weights = weights.get(),
            .y = {y.get(), kHidden}};
  }

  std::int64_t rows;
  DeviceArray<float> x;
  DeviceArray<std::int32_t> ids;
  DeviceArray<std::int32_t> bias_ids;  // as if the experts had other numbers than the matrices
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

// The experts of one type, and the same in f32.
struct PanelExpertsCase {
  explicit PanelExpertsCase(DType type)
      : gate(type, kInner, kHidden, 64),
        up(type, kInner, kHidden, 65),
        down(type, kHidden, kInner, 66) {}

  PanelExpertsJob job() const {
    return {.num_matrices = kNumExperts,
            .top_k = kTopK,
            .hidden = kHidden,
            .intermediate = kInner,
            .gate = gate.matrices(),
            .up = up.matrices(),
            .down = down.matrices(),
            .epilogue = epilogue};
  }
  Floats expected(const RoutedCase& test) const {
    const ExpertsJob reference = {.num_experts = kNumExperts,
                                  .top_k = kTopK,
                                  .hidden = kHidden,
                                  .intermediate = kInner,
                                  .gate = gate.stack(),
                                  .up = up.stack(),
                                  .down = down.stack(),
                                  .use_int8 = false,
                                  .arithmetic = Arithmetic::F32,
                                  .epilogue = epilogue};
    const DeviceArray<std::byte> scratch(experts_bytes(reference, test.rows));
    experts(reference, test.routed(), scratch.get(), nullptr);
    return test.y.download();
  }

  Projection gate;
  Projection up;
  Projection down;
  ExpertEpilogue epilogue = {};
};

TEST_F(PanelExperts, EqualRowsOfTheSameWeights) {
  for (const packing::PackedType& type : packing::kPackedTypes) {
    const PanelExpertsCase weights(type.dtype);
    for (const std::int64_t rows : {1, 2, 9, 33}) {
      const RoutedCase test(rows);
      const Floats want = weights.expected(test);
      const DeviceArray<std::byte> scratch(panel_experts_bytes(weights.job(), rows));
      panel_experts(weights.job(), test.routed(), scratch.get(), nullptr);
      EXPECT_LT(relative_error(test.y.download(), want), 1e-5)
          << name(type.dtype) << ", " << rows << " rows";
    }
  }
}

// The reference adds them after the products, the kernels inside.
TEST_F(PanelExperts, BiasesAndClampedActivation) {
  const DeviceArray<float> gate_bias(Random(67).floats(kNumExperts * kInner));
  const DeviceArray<float> up_bias(Random(68).floats(kNumExperts * kInner));
  const DeviceArray<float> down_bias(Random(69).floats(kNumExperts * kHidden));
  for (const DType type : {DType::MXFP4, DType::Q4_K}) {
    PanelExpertsCase weights(type);
    weights.epilogue = {.gate_bias = gate_bias.get(),
                        .up_bias = up_bias.get(),
                        .down_bias = down_bias.get(),
                        .swiglu_limit = 0.7F};
    for (const std::int64_t rows : {1, 9, 100}) {
      const RoutedCase test(rows);
      const Floats want = weights.expected(test);
      const DeviceArray<std::byte> scratch(panel_experts_bytes(weights.job(), rows));
      panel_experts(weights.job(), test.routed(), scratch.get(), nullptr);
      EXPECT_LT(relative_error(test.y.download(), want), 1e-5) << name(type) << ", " << rows;
      if (!has_panel_gemm()) continue;
      const DeviceArray<std::byte> mma_scratch(panel_experts_mma_bytes(weights.job(), rows));
      panel_experts_mma(weights.job(), test.routed(), nullptr, mma_scratch.get(), nullptr);
      EXPECT_LT(relative_error(test.y.download(), want), 4e-3) << name(type) << ", " << rows;
    }
  }
}

Floats multiply_mma(const PanelExpertsCase& weights, const RoutedRows& routed, const Floats& y) {
  const DeviceArray<float> result(y);
  RoutedRows rows = routed;
  rows.y = {result.get(), kHidden};
  const DeviceArray<std::byte> scratch(panel_experts_mma_bytes(weights.job(), rows.rows));
  panel_experts_mma(weights.job(), rows, nullptr, scratch.get(), nullptr);
  return result.download();
}

TEST_F(PanelExperts, OnTensorCoresAreNearF32) {
  if (!has_panel_gemm()) GTEST_SKIP() << "needs sm_90";
  for (const packing::PackedType& type : packing::kPackedTypes) {
    if (!has_panels(type.dtype)) continue;
    const PanelExpertsCase weights(type.dtype);
    for (const std::int64_t rows : {1, 2, 5, 9, 33, 100}) {
      const RoutedCase test(rows);
      const Floats want = weights.expected(test);
      EXPECT_LT(relative_error(multiply_mma(weights, test.routed(), want), want), 4e-3)
          << name(type.dtype) << ", " << rows << " rows";
    }
  }
}

// Some pairs of panels per thread block, also fewer in the last one.
TEST_F(PanelExperts, PanelsOfAThreadBlockDoNotChangeBits) {
  if (!has_panel_gemm()) GTEST_SKIP() << "needs sm_90";
  for (const DType type : {DType::Q4_K, DType::Q6_K, DType::Q8_0, DType::Q5_0}) {
    const PanelExpertsCase weights(type);
    for (const std::int64_t rows : {1, 5, 12}) {
      const RoutedCase test(rows);
      const Floats empty(static_cast<std::size_t>(rows * kHidden));
      PanelExpertsJob job = weights.job();
      const auto multiply = [&](int panel_pairs) {
        job.panel_pairs = panel_pairs;
        const DeviceArray<float> result(empty);
        RoutedRows routed = test.routed();
        routed.y = {result.get(), kHidden};
        const DeviceArray<std::byte> scratch(panel_experts_mma_bytes(job, rows));
        panel_experts_mma(job, routed, nullptr, scratch.get(), nullptr);
        return result.download();
      };
      const Floats one = multiply(1);
      EXPECT_NE(one, empty);
      for (const int panel_pairs : {2, 3, 8})
        EXPECT_EQ(multiply(panel_pairs), one) << name(type) << ", " << rows << ", " << panel_pairs;
    }
  }
}

// Tiles of 64 rows (with super-blocks) or 32, beside one pair and tiles of 8 and 32 rows.
TEST_F(PanelExperts, ARowsBitsDoNotDependOnTheBatch) {
  if (!has_panel_gemm()) GTEST_SKIP() << "needs sm_90";
  for (const DType type : {DType::Q2_K, DType::Q3_K, DType::Q4_K, DType::Q5_K, DType::Q6_K,
                           DType::IQ4_XS, DType::Q8_0}) {
    const PanelExpertsCase weights(type);
    const RoutedCase test(150);
    const Floats together = multiply_mma(weights, test.routed(), Floats(150 * kHidden));
    for (const std::int64_t count : {1, 4, 12, 40}) {
      for (const std::int64_t row : {0, 11, 109}) {
        RoutedRows some = test.routed();
        some.rows = count;
        some.x.data += row * kHidden;
        some.expert_ids += row * kTopK;
        some.bias_ids += row * kTopK;
        some.weights += row * kTopK;
        const auto want = together.begin() + row * kHidden;
        EXPECT_EQ(multiply_mma(weights, some, Floats(static_cast<std::size_t>(count * kHidden))),
                  Floats(want, want + count * kHidden))
            << name(type) << ", rows from " << row << ", " << count;
      }
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
