#include "graft/kernels/cuda/moe/experts.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "graft/kernels/cuda/moe/expert_group.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using testing::TestMatrix;

struct Types {
  DType gate;
  DType up;
  DType down;
};

// Experts with random weights, on the GPU and in double precision.
class ExpertsCase {
 public:
  ExpertsCase(Types types,
              std::int64_t num_experts,
              std::int64_t top_k,
              std::int64_t hidden,
              std::int64_t inner)
      : gate_(testing::random_matrix(types.gate, num_experts * inner, hidden, 51)),
        up_(testing::random_matrix(types.up, num_experts * inner, hidden, 52)),
        down_(testing::random_matrix(types.down, num_experts * hidden, inner, 53)),
        gate_data_(gate_.bytes),
        up_data_(up_.bytes),
        down_data_(down_.bytes) {
    job = {.num_experts = num_experts,
           .top_k = top_k,
           .hidden = hidden,
           .intermediate = inner,
           .gate = stack(types.gate, gate_data_, inner, hidden),
           .up = stack(types.up, up_data_, inner, hidden),
           .down = stack(types.down, down_data_, hidden, inner),
           .use_int8 = false,
           .arithmetic = Arithmetic::F32};
  }

  Floats run(const Floats& x,
             const std::vector<std::int32_t>& ids,
             const Floats& weights,
             bool quantize_x = false) const {
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / job.hidden;
    const DeviceArray<float> x_data(x);
    const DeviceArray<std::int32_t> id_data(ids);
    const DeviceArray<float> weight_data(weights);
    const DeviceArray<float> y(x.size());
    const DeviceArray<std::byte> scratch(experts_bytes(job, rows));
    const DeviceArray<std::byte> q8_memory(q8_rows_bytes(rows, job.hidden));
    const Q8Rows x_q8 = q8_rows_at(q8_memory.get(), rows, job.hidden);
    if (quantize_x) quantize_rows({x_data.get(), job.hidden}, x_q8, rows, job.hidden, nullptr);
    experts(job,
            {.rows = rows,
             .x = {x_data.get(), job.hidden},
             .x_q8 = quantize_x ? &x_q8 : nullptr,
             .expert_ids = id_data.get(),
             .weights = weight_data.get(),
             .y = {y.get(), job.hidden}},
            scratch.get(), nullptr);
    return y.download();
  }

  // The same with add_expert_group(), `group_size` experts at a time; all types are F16 or all f32.
  Floats run_grouped(const Floats& x,
                     const std::vector<std::int32_t>& ids,
                     const Floats& weights,
                     std::int64_t group_size) const {
    const DType dtype = job.gate.matrix.dtype;
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / job.hidden;
    const auto num_pairs = static_cast<std::int64_t>(ids.size());
    const std::int64_t tile_rows = group_tile_rows(dtype);
    const DeviceArray<float> x_data(x);
    const DeviceArray<std::int32_t> id_data(ids);
    const DeviceArray<float> weight_data(weights);
    const DeviceArray<float> y(Floats(x.size(), 0.0F));
    const DeviceArray<std::byte> halves(half_rows_bytes(rows, job.hidden));
    const DeviceArray<std::int32_t> counts(static_cast<std::size_t>(job.num_experts));
    const DeviceArray<std::int32_t> order(ids.size());
    const DeviceArray<RowTile> tiles(
        static_cast<std::size_t>(max_row_tiles(num_pairs, job.num_experts, tile_rows)));
    GroupRows group_rows = {.rows = rows,
                            .top_k = job.top_k,
                            .x = {x_data.get(), job.hidden},
                            .x16 = half_rows_at(halves.get(), rows, job.hidden),
                            .expert_ids = id_data.get(),
                            .weights = weight_data.get(),
                            .y = {y.get(), job.hidden},
                            .groups = {counts.get(), order.get(), tiles.get()}};
    to_half_rows(group_rows.x, group_rows.x16, rows, job.hidden, nullptr);
    group_pairs(id_data.get(), num_pairs, job.num_experts, tile_rows, group_rows.groups, nullptr);
    const std::vector<std::int32_t> num_of = counts.download();
    ExpertGroup group = {.dtype = dtype,
                         .hidden = job.hidden,
                         .intermediate = job.intermediate,
                         .epilogue = job.epilogue};
    const DeviceArray<std::byte> scratch(expert_group_bytes(group, rows, job.top_k));
    for (std::int64_t first = 0; first < job.num_experts; first += group_size) {
      group.first_expert = first;
      group.num_experts = std::min(group_size, job.num_experts - first);
      const auto at = [&](const ExpertStack& stack) {
        return static_cast<const std::byte*>(stack.matrix.data) +
               static_cast<std::size_t>(first) * stack.matrix_bytes;
      };
      group.gate = at(job.gate);
      group.up = at(job.up);
      group.down = at(job.down);
      group_rows.num_tiles = group_rows.num_pairs = 0;
      for (std::int64_t e = first; e < first + group.num_experts; ++e) {
        group_rows.num_pairs += num_of[static_cast<std::size_t>(e)];
        group_rows.num_tiles += (num_of[static_cast<std::size_t>(e)] + tile_rows - 1) / tile_rows;
      }
      add_expert_group(group, group_rows, scratch.get(), nullptr);
      group_rows.first_pair += group_rows.num_pairs;
      group_rows.first_tile += group_rows.num_tiles;
    }
    return y.download();
  }

  Floats reference(const Floats& x,
                   const std::vector<std::int32_t>& ids,
                   const Floats& weights) const {
    std::vector<double> y(x.size());
    for (std::size_t pair = 0; pair < ids.size(); ++pair) {
      if (ids[pair] < 0) continue;
      const auto row = static_cast<std::int64_t>(pair) / job.top_k;
      const float* in = x.data() + row * job.hidden;
      std::vector<double> inner;
      for (std::int64_t i = 0; i < job.intermediate; ++i) {
        const std::int64_t at = ids[pair] * job.intermediate + i;
        inner.push_back(activation(dot(gate_, at, in, job.hidden) + bias(gate_bias_, at),
                                   dot(up_, at, in, job.hidden) + bias(up_bias_, at)));
      }
      for (std::int64_t i = 0; i < job.hidden; ++i) {
        const std::int64_t at = ids[pair] * job.hidden + i;
        y[static_cast<std::size_t>(row * job.hidden + i)] +=
            weights[pair] * (dot(down_, at, inner.data(), job.intermediate) + bias(down_bias_, at));
      }
    }
    return {y.begin(), y.end()};
  }

  // Adds biases and clamps the activation.
  void use_epilogue(float swiglu_limit) {
    Random random(61);
    gate_bias_ = random.floats(job.num_experts * job.intermediate);
    up_bias_ = random.floats(job.num_experts * job.intermediate);
    down_bias_ = random.floats(job.num_experts * job.hidden);
    bias_data_.clear();
    for (const Floats* values : {&gate_bias_, &up_bias_, &down_bias_})
      bias_data_.emplace_back(*values);
    job.epilogue = {.gate_bias = bias_data_[0].get(),
                    .up_bias = bias_data_[1].get(),
                    .down_bias = bias_data_[2].get(),
                    .swiglu_limit = swiglu_limit};
  }

  ExpertsJob job;

 private:
  static double bias(const Floats& biases, std::int64_t at) {
    return biases.empty() ? 0.0 : static_cast<double>(biases[static_cast<std::size_t>(at)]);
  }
  double activation(double gate, double up) const {
    const auto limit = static_cast<double>(job.epilogue.swiglu_limit);
    if (limit == 0.0) return gate / (1 + std::exp(-gate)) * up;
    const double g = std::min(gate, limit);
    return g / (1 + std::exp(-1.702 * g)) * (std::clamp(up, -limit, limit) + 1);
  }

  static ExpertStack stack(DType type,
                           const DeviceArray<std::byte>& data,
                           std::int64_t out,
                           std::int64_t in) {
    return {.matrix = {.dtype = type, .data = data.get(), .cols = in},
            .matrix_bytes = bytes_of(type, out * in)};
  }
  template <class T>
  static double dot(const TestMatrix& matrix, std::int64_t row, const T* x, std::int64_t count) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(matrix.values[static_cast<std::size_t>(row * count + i)]) * x[i];
    return sum;
  }

  TestMatrix gate_;
  TestMatrix up_;
  TestMatrix down_;
  DeviceArray<std::byte> gate_data_;
  DeviceArray<std::byte> up_data_;
  DeviceArray<std::byte> down_data_;
  Floats gate_bias_;
  Floats up_bias_;
  Floats down_bias_;
  std::deque<DeviceArray<float>> bias_data_;
};

class ExpertsKernels : public testing::GpuTest {};

// Covers gemv per pair, gemv tiles and gemm tiles; one expert has no tokens, one pair no expert.
TEST_F(ExpertsKernels, AllTokenCounts) {
  const ExpertsCase test({DType::F32, DType::F32, DType::F32}, 7, 3, 20, 12);
  for (const std::int64_t rows : {1, 2, 4, 5, 18, 19, 40, 100}) {
    Random random(54);
    const Floats x = random.floats(rows * 20);
    std::vector<std::int32_t> ids = random.ints(rows * 3, 6);
    ids.back() = -1;
    const Floats weights = random.floats(rows * 3);
    EXPECT_LT(relative_error(test.run(x, ids, weights), test.reference(x, ids, weights)), 1e-5)
        << rows << " rows";
  }
}

// Experts that arrive in groups: right, and the same bits for every size of the groups.
TEST_F(ExpertsKernels, GroupsOfExperts) {
  for (const DType type : {DType::F32, DType::F16}) {
    const ExpertsCase test({type, type, type}, 7, 3, 64, 40);
    for (const std::int64_t rows : {1, 19, 300}) {
      Random random(57);
      const Floats x = random.floats(rows * 64);
      std::vector<std::int32_t> ids = random.ints(rows * 3, 6);
      ids.back() = -1;
      const Floats weights = random.floats(rows * 3);
      const Floats all = test.run_grouped(x, ids, weights, 7);
      EXPECT_LT(relative_error(all, test.reference(x, ids, weights)),
                type == DType::F32 ? 1e-5 : 2e-3);
      for (const std::int64_t size : {1, 2, 3})
        EXPECT_EQ(test.run_grouped(x, ids, weights, size), all) << rows << " rows, " << size;
    }
  }
}

// Biases and the clamped activation after every kind of product.
TEST_F(ExpertsKernels, BiasesAndClampedActivation) {
  for (const DType type : {DType::F32, DType::F16, DType::MXFP4}) {
    ExpertsCase test({type, type, type}, 7, 3, 64, 32);
    test.use_epilogue(0.7F);
    for (const std::int64_t rows : {1, 4, 5, 19, 100}) {
      Random random(57);
      const Floats x = random.floats(rows * 64);
      std::vector<std::int32_t> ids = random.ints(rows * 3, 6);
      ids.back() = -1;
      const Floats weights = random.floats(rows * 3);
      const Floats want = test.reference(x, ids, weights);
      test.job.use_int8 = false;
      test.job.arithmetic = Arithmetic::F32;
      EXPECT_LT(relative_error(test.run(x, ids, weights), want), 1e-5) << rows;
      test.job.use_int8 = true;
      test.job.arithmetic = Arithmetic::F16;
      EXPECT_LT(relative_error(test.run(x, ids, weights), want), 2e-2) << rows;
      if (type == DType::MXFP4) continue;
      const Floats all = test.run_grouped(x, ids, weights, 7);
      EXPECT_LT(relative_error(all, want), type == DType::F32 ? 1e-5 : 2e-3) << rows;
      EXPECT_EQ(test.run_grouped(x, ids, weights, 2), all) << rows;
    }
  }
}

// x quantized by the caller gives the same bits.
TEST_F(ExpertsKernels, PrequantizedRows) {
  ExpertsCase test({DType::Q8_0, DType::Q8_0, DType::Q8_0}, 7, 3, 64, 32);
  test.job.use_int8 = true;
  for (const std::int64_t rows : {1, 4, 5, 16}) {
    Random random(55);
    const Floats x = random.floats(rows * 64);
    const std::vector<std::int32_t> ids = random.ints(rows * 3, 7);
    const Floats weights = random.floats(rows * 3);
    EXPECT_EQ(test.run(x, ids, weights, true), test.run(x, ids, weights)) << rows << " rows";
  }
}

// Several tiles of one expert.
TEST_F(ExpertsKernels, AllTokensToOneExpert) {
  const ExpertsCase test({DType::BF16, DType::BF16, DType::BF16}, 4, 1, 16, 24);
  Random random(55);
  const Floats x = random.floats(150 * 16);
  const std::vector<std::int32_t> ids(150, 2);
  const Floats weights = random.floats(150);
  EXPECT_LT(relative_error(test.run(x, ids, weights), test.reference(x, ids, weights)), 1e-5);
}

// Dtypes with and without int8 GEMV; gate and up of different dtypes.
TEST_F(ExpertsKernels, Types) {
  for (const Types types :
       {Types{DType::Q4_K, DType::Q4_K, DType::Q6_K}, Types{DType::Q8_0, DType::Q4_0, DType::Q5_K},
        Types{DType::IQ2_XS, DType::IQ2_XS, DType::MXFP4}}) {
    ExpertsCase test(types, 3, 2, 256, 256);
    Random random(56);
    for (const std::int64_t rows : {1, 3, 12, 40}) {
      const Floats x = random.floats(rows * 256, 0.2F);
      const std::vector<std::int32_t> ids = random.ints(rows * 2, 3);
      const Floats weights = random.floats(rows * 2);
      const Floats want = test.reference(x, ids, weights);
      test.job.use_int8 = false;
      test.job.arithmetic = Arithmetic::F32;
      EXPECT_LT(relative_error(test.run(x, ids, weights), want), 1e-5) << rows;
      test.job.use_int8 = true;
      test.job.arithmetic = Arithmetic::F16;
      EXPECT_LT(relative_error(test.run(x, ids, weights), want), 2e-2) << rows;
    }
  }
}

// Many tokens on tensor cores, some with intermediate values beyond the range of F16.
TEST_F(ExpertsKernels, TensorCores) {
  ExpertsCase test({DType::BF16, DType::BF16, DType::BF16}, 3, 2, 72, 40);
  test.job.arithmetic = Arithmetic::F16;
  for (const float size : {1.0F, 1e-5F, 3e3F}) {
    Random random(58);
    const Floats x = random.floats(70 * 72, size);
    const std::vector<std::int32_t> ids = random.ints(70 * 2, 3);
    const Floats weights = random.floats(70 * 2);
    EXPECT_LT(relative_error(test.run(x, ids, weights), test.reference(x, ids, weights)), 2e-3)
        << size;
  }
}

// F16 stacks beyond the gemv limit: gemm_experts_silu_mma where the GPU has it. Widths that are
// not multiples of 8 use gemm_experts_f16. The last pair has no expert.
TEST_F(ExpertsKernels, F16Stacks) {
  for (const std::int64_t inner : {40, 136, 44}) {
    ExpertsCase test({DType::F16, DType::F16, DType::F16}, 3, 2, 72, inner);
    test.job.arithmetic = Arithmetic::F16;
    for (const std::int64_t rows : {12, 13, 70, 300}) {
      Random random(59);
      const Floats x = random.floats(rows * 72);
      std::vector<std::int32_t> ids = random.ints(rows * 2, 3);
      ids.back() = -1;
      const Floats weights = random.floats(rows * 2);
      EXPECT_LT(relative_error(test.run(x, ids, weights), test.reference(x, ids, weights)), 2e-3)
          << rows << " rows, " << inner << " inner";
    }
  }
}

// A token has the same bits alone and with others, as long as all run in tiles of the GEMM.
TEST_F(ExpertsKernels, F16StacksAreBatchInvariant) {
  ExpertsCase test({DType::F16, DType::F16, DType::F16}, 2, 1, 264, 200);
  test.job.arithmetic = Arithmetic::F16;
  Random random(60);
  const Floats x = random.floats(200 * 264);
  const std::vector<std::int32_t> ids = random.ints(200, 2);
  const Floats weights = random.floats(200);
  const Floats all = test.run(x, ids, weights);
  for (const std::int64_t rows : {17, 30, 100}) {
    const Floats some =
        test.run({x.begin(), x.begin() + rows * 264}, {ids.begin(), ids.begin() + rows},
                 {weights.begin(), weights.begin() + rows});
    EXPECT_EQ(some, Floats(all.begin(), all.begin() + rows * 264)) << rows << " rows";
  }
}

// Scratch for many rows is enough for fewer rows.
TEST_F(ExpertsKernels, ScratchGrowsWithRows) {
  ExpertsCase test({DType::F16, DType::F16, DType::F16}, 5, 2, 8, 64);
  test.job.arithmetic = Arithmetic::F16;
  for (std::int64_t rows = 1; rows < 80; ++rows)
    EXPECT_LE(experts_bytes(test.job, rows), experts_bytes(test.job, rows + 1)) << rows;
}

TEST_F(ExpertsKernels, GroupPairsIsStable) {
  for (const std::int64_t pairs : {1, 31, 1000, 2500}) {
    const std::int64_t tile_rows = pairs < 100    ? kGemvTileRows
                                   : pairs < 2000 ? kGemmTileRows
                                                  : kMmaTileRows;
    const std::int64_t num_experts = 9;
    std::vector<std::int32_t> ids = Random(57).ints(pairs, num_experts - 1);
    const DeviceArray<std::int32_t> id_data(ids);
    const DeviceArray<std::int32_t> counts(static_cast<std::size_t>(num_experts));
    const DeviceArray<std::int32_t> order(ids.size());
    const std::int64_t num_tiles = max_row_tiles(pairs, num_experts, tile_rows);
    const DeviceArray<RowTile> tiles(static_cast<std::size_t>(num_tiles));
    group_pairs(id_data.get(), pairs, num_experts, tile_rows,
                {counts.get(), order.get(), tiles.get()}, nullptr);
    std::vector<std::int32_t> want;
    std::vector<std::int32_t> want_counts;
    for (std::int32_t expert = 0; expert < num_experts; ++expert) {
      const std::size_t before = want.size();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == expert) want.push_back(static_cast<std::int32_t>(i));
      }
      want_counts.push_back(static_cast<std::int32_t>(want.size() - before));
    }
    EXPECT_EQ(order.download(), want);
    EXPECT_EQ(counts.download(), want_counts);
    std::vector<std::int32_t> covered;
    for (const RowTile& tile : tiles.download()) {
      EXPECT_LE(tile.count, tile_rows);
      for (std::int32_t i = tile.first; i < tile.first + tile.count; ++i) {
        EXPECT_EQ(ids[static_cast<std::size_t>(want[static_cast<std::size_t>(i)])], tile.matrix);
        covered.push_back(i);
      }
    }
    EXPECT_EQ(covered.size(), ids.size());
    EXPECT_TRUE(std::ranges::is_sorted(covered));
  }
}

}  // namespace
}  // namespace graft::kernels::cuda
