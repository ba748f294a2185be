#include <cstddef>
#include <cstdint>
#include <vector>

#include <arm_neon.h>
#include <gtest/gtest.h>

#include "graft/kernels/cpu/isa/isa.h"
#include "graft/kernels/cpu/packed/packed.h"
#include "graft/kernels/cpu/table.h"
#include "graft/tensor/dtype.h"
#include "graft/testing/kernels/bf16_problem.h"

GRAFT_ISA_BEGIN(bf16)
namespace {

// bfdot in the first lane: bfmmla is defined as two of them, for every one of its sums.
float dot_product(const float* x, const float* w, std::int64_t cols) {
  float32x2_t sum = vdup_n_f32(0);
  for (std::int64_t i = 0; i < cols; i += 2) {
    const float32x4_t xs = {x[i], x[i + 1], 0, 0};
    const float32x4_t ws = {w[i], w[i + 1], 0, 0};
    sum = vbfdot_f32(sum, vcvt_bf16_f32(xs), vcvt_bf16_f32(ws));
  }
  return vget_lane_f32(sum, 0);
}

}  // namespace
GRAFT_ISA_END

namespace graft::kernels::cpu {
namespace {

using bf16_problem::Bf16Problem;
using bf16_problem::decoded;
using bf16_problem::kBf16Types;
using bf16_problem::NamedTable;

class PackedBf16 : public testing::Test {
 protected:
  void SetUp() override {
    for (const KernelTable* found : runnable_kernels()) {
      if (found->isa == "bf16") table_ = {found->isa, &found->packed};
    }
    if (table_.table == nullptr) GTEST_SKIP() << "this CPU lacks bf16";
  }

  NamedTable table_ = {};
};

TEST_F(PackedBf16, MatchesTheDecodedWeights) {
  bf16_problem::expect_decoded_weights(table_);
}

TEST_F(PackedBf16, IsBatchInvariant) {
  bf16_problem::expect_batch_invariance(table_);
}

TEST_F(PackedBf16, ConvertsEveryFp8Code) {
  bf16_problem::expect_every_fp8_code(table_);
}

TEST_F(PackedBf16, NanInXStaysInItsRow) {
  bf16_problem::expect_nan_in_its_row(table_);
}

// Catches columns in another order, which the comparison with decoded weights cannot.
TEST_F(PackedBf16, AddsColumnsAsBfdotDoes) {
  for (const DType type : kBf16Types) {
    // One chunk of FP8 without scales: later chunks start from zero.
    const std::int64_t cols = bf16_problem::has_scales(type) ? 128 : 1184;
    const Bf16Problem problem(type, 18, cols, 7, false);
    const std::vector<float> w =
        decoded(type, problem.weights, static_cast<std::size_t>(problem.outputs * cols));
    const std::vector<float> y = problem.multiply(*table_.table, 0, problem.rows);
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      for (std::int64_t out = 0; out < problem.outputs; ++out) {
        const float want =
            bf16::dot_product(problem.x.data() + row * cols, w.data() + out * cols, cols);
        EXPECT_EQ(y[static_cast<std::size_t>(row * (problem.outputs + 3) + out)], want)
            << graft::name(type) << " row " << row << ", output " << out;
      }
    }
  }
}

TEST_F(PackedBf16, OtherTypesAreThoseOfTheLevelBelow) {
  for (const DType type : {DType::Q8_0, DType::Q4_K, DType::IQ2_XXS}) {
    const auto i = static_cast<std::size_t>(type);
    EXPECT_EQ(table_.table->kernels[i].multiply, i8mm::kPacked.kernels[i].multiply);
  }
}

}  // namespace
}  // namespace graft::kernels::cpu
