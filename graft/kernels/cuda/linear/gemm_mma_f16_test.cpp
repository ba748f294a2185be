#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/linear/linear.h"
#include "graft/testing/cuda/device.cuh"
#include "graft/testing/cuda/f16_rows.h"
#include "graft/testing/cuda/weights.h"

namespace graft::kernels::cuda {
namespace {

using testing::DeviceArray;
using testing::F16TestRows;
using testing::Floats;
using testing::Random;
using testing::relative_error;
using Doubles = std::vector<double>;
using Ids = std::vector<std::int32_t>;

constexpr double kMaxError = 1e-4;  // x is exact in F16; f32 sums of up to 2048 products
constexpr std::int64_t kNumMatrices = 3;

constexpr float kUnwritten = -77.0F;

struct GemmShape {
  std::int64_t in;
  std::int64_t out;
  std::int64_t products_per_x;
};

// Tiles of all sizes of fragments, and an empty one.
const Ids kCounts = {128, 0, 1, 17, 64, 65, 97, 40};

// Random x and two stacks on the GPU. The products of the tiles are shuffled; some are in no tile.
class GemmMmaCase {
 public:
  GemmMmaCase(const GemmShape& shape, const Ids& counts)
      : in(shape.in),
        out(shape.out),
        products_per_x(shape.products_per_x),
        num_products(std::accumulate(counts.begin(), counts.end(), 5)),
        num_x((num_products + products_per_x - 1) / products_per_x),
        gate(testing::random_matrix(DType::F16, kNumMatrices * out, in, 21)),
        up(testing::random_matrix(DType::F16, kNumMatrices * out, in, 22)),
        x(exact_rows(num_x, in)),
        row_ids(static_cast<std::size_t>(num_products)),
        gate_data(gate.bytes),
        up_data(up.bytes),
        x_data(x),
        x_f16({x_data.get(), in}, num_x, in) {
    std::iota(row_ids.begin(), row_ids.end(), 0);
    std::ranges::shuffle(row_ids, Random(23).engine());
    std::int32_t first = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto matrix = static_cast<std::int32_t>(i % kNumMatrices);
      tiles.push_back({.matrix = matrix, .first = first, .count = counts[i]});
      first += counts[i];
    }
  }

  LinearBatch products(const DeviceArray<std::byte>& stack, float* y) const {
    return {.stack = {.dtype = DType::F16, .data = stack.get(), .cols = in},
            .out = out,
            .matrix_bytes = bytes_of(DType::F16, out * in),
            .products_per_x = products_per_x,
            .y = {y, out}};
  }

  // `run` gets the tiles and the memory of y[num_products, out].
  template <class Run>
  Floats results(const std::vector<RowTile>& of, const Run& run) const {
    const DeviceArray<RowTile> tile_data(of);
    const DeviceArray<std::int32_t> id_data(row_ids);
    const DeviceArray<float> y(Floats(static_cast<std::size_t>(num_products * out), kUnwritten));
    const RowTiles rows = {.tiles = tile_data.get(),
                           .count = static_cast<std::int64_t>(of.size()),
                           .row_ids = id_data.get()};
    run(rows, y.get());
    return y.download();
  }
  Floats plain(const std::vector<RowTile>& of, const DeviceArray<std::byte>& stack) const {
    return results(of, [&](const RowTiles& rows, float* y) {
      gemm_experts_mma(products(stack, y), rows, x_f16.view, nullptr);
    });
  }
  Floats silu(const std::vector<RowTile>& of) const {
    return results(of, [&](const RowTiles& rows, float* y) {
      LinearBatch both = products(gate_data, y);
      both.second = up_data.get();
      gemm_experts_silu_mma(both, rows, x_f16.view, nullptr);
    });
  }

  // value(x row, row of the stacks) for the products of the tiles; the others stay unwritten.
  template <class Value>
  Doubles reference(const Value& value) const {
    Doubles y(static_cast<std::size_t>(num_products * out), kUnwritten);
    for (const RowTile& tile : tiles) {
      for (std::int32_t i = tile.first; i < tile.first + tile.count; ++i) {
        const std::int64_t id = row_ids[static_cast<std::size_t>(i)];
        for (std::int64_t o = 0; o < out; ++o)
          y[static_cast<std::size_t>(id * out + o)] =
              value(id / products_per_x, tile.matrix * out + o);
      }
    }
    return y;
  }
  double dot(const testing::TestMatrix& stack, std::int64_t x_row, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t i = 0; i < in; ++i)
      sum += static_cast<double>(x[static_cast<std::size_t>(x_row * in + i)]) *
             stack.values[static_cast<std::size_t>(row * in + i)];
    return sum;
  }

  std::int64_t in;
  std::int64_t out;
  std::int64_t products_per_x;
  std::int64_t num_products;
  std::int64_t num_x;
  testing::TestMatrix gate;
  testing::TestMatrix up;
  Floats x;
  Ids row_ids;
  std::vector<RowTile> tiles;
  DeviceArray<std::byte> gate_data;
  DeviceArray<std::byte> up_data;
  DeviceArray<float> x_data;
  F16TestRows x_f16;

 private:
  // Values that F16 represents exactly; every third row is large or small enough for a scale other
  // than 1.
  static Floats exact_rows(std::int64_t rows, std::int64_t cols) {
    Floats values = Random(24).floats(rows * cols);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      float& value = values[static_cast<std::size_t>(i)];
      value = std::round(value * 64) / 64;
      const std::int64_t row = i / cols;
      if (row % 3 == 0) value = std::ldexp(value, row % 2 == 0 ? 20 : -20);
    }
    return values;
  }
};

class GemmMma : public testing::GpuTest {
 protected:
  void SetUp() override {
    testing::GpuTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure() && !has_gemm_mma()) {
      GTEST_SKIP() << "the GPU or this build is older than sm_80";
    }
  }
};

// Largest error of a row, relative to the norm of the row: rows differ by many powers of ten.
double max_row_error(const Floats& got, const Doubles& want, std::int64_t cols) {
  double max_error = 0;
  for (std::size_t begin = 0; begin < want.size(); begin += static_cast<std::size_t>(cols)) {
    const auto row = static_cast<std::ptrdiff_t>(begin);
    const Floats got_row(got.begin() + row, got.begin() + row + cols);
    const Doubles want_row(want.begin() + row, want.begin() + row + cols);
    max_error = std::max(max_error, relative_error(got_row, want_row));
  }
  return max_error;
}

TEST_F(GemmMma, MatchesReference) {
  for (const GemmShape& shape :
       {GemmShape{8, 5, 1}, GemmShape{24, 128, 8}, GemmShape{768, 130, 1}, GemmShape{2048, 96, 8},
        GemmShape{1408, 257, 1}, GemmShape{40, 384, 3}, GemmShape{64, 300, 1}}) {
    const GemmMmaCase c(shape, kCounts);
    const Doubles want = c.reference(
        [&](std::int64_t x_row, std::int64_t row) { return c.dot(c.gate, x_row, row); });
    EXPECT_LT(max_row_error(c.plain(c.tiles, c.gate_data), want, c.out), kMaxError)
        << "in " << shape.in << ", out " << shape.out;
  }
}

TEST_F(GemmMma, SiluMatchesReference) {
  for (const GemmShape& shape : {GemmShape{8, 5, 1}, GemmShape{24, 64, 8}, GemmShape{768, 66, 1},
                                 GemmShape{2048, 100, 8}, GemmShape{1408, 129, 1}}) {
    const GemmMmaCase c(shape, kCounts);
    const Doubles want = c.reference([&](std::int64_t x_row, std::int64_t row) {
      const double gate = c.dot(c.gate, x_row, row);
      return gate / (1 + std::exp(-gate)) * c.dot(c.up, x_row, row);
    });
    EXPECT_LT(max_row_error(c.silu(c.tiles), want, c.out), 2 * kMaxError)
        << "in " << shape.in << ", out " << shape.out;
  }
}

// One launch gives the bits of two products and silu_mul().
TEST_F(GemmMma, SiluMatchesSiluMul) {
  for (const std::int64_t out : {63, 200}) {
    const GemmMmaCase c({72, out, 2}, kCounts);
    const Floats gate = c.plain(c.tiles, c.gate_data);
    const Floats up = c.plain(c.tiles, c.up_data);
    const DeviceArray<float> gate_data(gate);
    const DeviceArray<float> up_data(up);
    const DeviceArray<float> y(gate.size());
    silu_mul({gate_data.get(), out}, {up_data.get(), out}, {y.get(), out}, c.num_products, out,
             nullptr);
    Floats want = y.download();
    for (std::size_t i = 0; i < want.size(); ++i)
      if (gate[i] == kUnwritten && up[i] == kUnwritten) want[i] = kUnwritten;
    EXPECT_EQ(c.silu(c.tiles), want);
  }
}

// A row has the same bits in a tile of any size.
TEST_F(GemmMma, RowsAreIndependentOfTheirTile) {
  const GemmMmaCase c({264, 200, 4}, {128});
  const Floats plain = c.plain(c.tiles, c.gate_data);
  const Floats silu = c.silu(c.tiles);
  for (const Ids& counts :
       {Ids(128, 1), Ids{17, 111}, Ids{64, 64}, Ids{65, 30, 33}, Ids{3, 96, 0, 29}}) {
    std::vector<RowTile> tiles;
    std::int32_t first = 0;
    for (const std::int32_t count : counts) {
      tiles.push_back({.matrix = c.tiles[0].matrix, .first = first, .count = count});
      first += count;
    }
    ASSERT_EQ(first, 128);
    EXPECT_EQ(c.plain(tiles, c.gate_data), plain) << counts.size() << " tiles";
    EXPECT_EQ(c.silu(tiles), silu) << counts.size() << " tiles";
  }
}

TEST_F(GemmMma, SupportsColumnsThatFillChunks) {
  EXPECT_TRUE(can_use_gemm_mma(8));
  EXPECT_TRUE(can_use_gemm_mma(1408));
  EXPECT_FALSE(can_use_gemm_mma(0));
  EXPECT_FALSE(can_use_gemm_mma(12));
}

}  // namespace
}  // namespace graft::kernels::cuda
