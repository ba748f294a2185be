#include "graft/ops/cpu/packed.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/workers.h"
#include "graft/packing/packer.h"

namespace graft::ops::cpu {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

const kernels::cpu::PackedKernel& kernel_of(DType dtype) {
  return kernels::cpu::kernels().packed.kernels[static_cast<std::size_t>(dtype)];
}

packing::StoredMatrix stored(const Weight& weight) {
  packing::StoredMatrix matrix = {.name = weight.name,
                                  .dtype = weight.dtype,
                                  .rows = weight.rows(),
                                  .cols = weight.cols(),
                                  .data = weight.data};
  if (weight.scale) {
    matrix.scale_layout = &weight.scale->layout;
    matrix.scales = weight.scale->values.data();
  }
  return matrix;
}

}  // namespace

bool can_pack(DType dtype, std::int64_t cols) {
  return kernel_of(dtype).multiply != nullptr &&
         cols % packing::chunk_cols(packing::packed_format(dtype)) == 0;
}

bool can_pack(const Weight& weight) {
  if (!can_pack(weight.dtype, weight.cols())) return false;
  if (!weight.scale) return true;
  const packing::PackedFormat format = packing::packed_format(weight.dtype);
  const quant::ScaleLayout& layout = weight.scale->layout;
  return format.scale == packing::PackedFormat::Scale::F32 &&
         (layout.scale_cols == 1 || layout.tile_cols % packing::chunk_cols(format) == 0);
}

std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider) {
  std::vector<packing::StoredMatrix> matrices;
  for (const Weight& weight : weights)
    matrices.push_back(stored(weight));
  std::vector<PackedMatrix> packed =
      provider.packer()->pack(matrices, kernels::cpu::kernels().codecs);
  for (const Weight& weight : weights)
    provider.release(weight);
  return packed;
}

void multiply_range(const PackedMatrix& matrix,
                    std::int64_t begin,
                    std::int64_t count,
                    const std::byte* quantized,
                    std::int64_t num_rows,
                    float* y,
                    std::int64_t ldy) {
  GRAFT_DCHECK(begin % packing::kPanelRows == 0 && begin + count <= matrix.rows(), begin, " + ",
               count, " of ", matrix.rows());
  for (const PackedMatrix::Slice& slice : matrix.slices()) {
    const std::int64_t from = std::max(begin, slice.begin);
    const std::int64_t to = std::min(begin + count, slice.end);
    if (from >= to) continue;
    kernel_of(matrix.dtype())
        .multiply(matrix.panel(slice, from), to - from, matrix.cols(), quantized, num_rows,
                  y + (from - begin), ldy);
  }
}

QuantizedRows::QuantizedRows(DType dtype,
                             std::int64_t cols,
                             std::int64_t num_rows,
                             Workspace& workspace)
    : dtype_(dtype),
      cols_(cols),
      row_bytes_(kernels::cpu::quantized_row_bytes(packing::packed_format(dtype), cols)),
      bytes_(workspace.allocate(DType::U8, {num_rows, row_bytes_}).as<std::byte>()) {}

std::int64_t QuantizedRows::tile_rows() {
  return kernels::cpu::kernels().packed.tile_rows;
}

void QuantizedRows::quantize(std::int64_t first,
                             const float* const* rows,
                             std::int64_t count) const {
  GRAFT_DCHECK(count <= tile_rows(), count, " rows in a tile of ", tile_rows());
  kernel_of(dtype_).quantize(rows, count, cols_, bytes_ + first * row_bytes_);
}

namespace {

void quantize_all(const QuantizedRows& quantized, TensorView x, Pass& pass) {
  const std::int64_t tile_rows = QuantizedRows::tile_rows();
  const auto quantize_tile = [&](std::int64_t tile) {
    std::array<const float*, kernels::cpu::kMaxGemmRows> rows;
    const std::int64_t first = tile * tile_rows;
    const std::int64_t count = std::min(tile_rows, x.rows() - first);
    for (std::int64_t i = 0; i < count; ++i)
      rows[static_cast<std::size_t>(i)] = x.f32_row(first + i);
    quantized.quantize(first, rows.data(), count);
  };
  const std::int64_t num_tiles = divide_up(x.rows(), tile_rows);
  if (x.rows() * x.cols() <= kMaxElemsPerThread) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile)
      quantize_tile(tile);
  } else {
    for_each_item(pass.pool, num_tiles,
                  [&](std::int64_t /*worker*/, std::int64_t tile) { quantize_tile(tile); });
  }
}

// The rows of x for each product; products of one weight type share them.
std::array<QuantizedRows, kMaxProducts> quantize_for(std::span<const PackedProduct> products,
                                                     TensorView x,
                                                     Pass& pass) {
  std::array<QuantizedRows, kMaxProducts> quantized;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const DType dtype = products[i].matrix->dtype();
    const auto before = std::span(quantized).first(i);
    const auto same = std::ranges::find(before, dtype, &QuantizedRows::dtype);
    if (same != before.end()) {
      quantized[i] = *same;
      continue;
    }
    quantized[i] = QuantizedRows(dtype, x.cols(), x.rows(), pass.workspace);
    quantize_all(quantized[i], x, pass);
  }
  return quantized;
}

// A tile of the outputs: some rows of x times one of `num_splits` ranges of every matrix's outputs.
struct OutputTile {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t split = 0;
  std::int64_t num_splits = 0;

  // Outputs [begin, end) of a matrix, in multiples of kOutputStep.
  std::int64_t begin(const PackedMatrix& matrix) const { return start_of(split, matrix); }
  std::int64_t end(const PackedMatrix& matrix) const { return start_of(split + 1, matrix); }

 private:
  std::int64_t start_of(std::int64_t i, const PackedMatrix& matrix) const {
    const std::int64_t steps = divide_up(matrix.rows(), kOutputStep);
    return std::min(matrix.rows(), steps * i / num_splits * kOutputStep);
  }
};

// Calls epilogue(tile) on the thread that computed the tile's outputs.
template <class Epilogue>
void multiply_tiles(TensorView x,
                    std::span<const PackedProduct> products,
                    Pass& pass,
                    const Epilogue& epilogue) {
  GRAFT_DCHECK(products.size() <= kMaxProducts, products.size(), " products");
  if (x.rows() == 0) return;
  const Workspace::Scope scope(pass.workspace);
  const std::array quantized = quantize_for(products, x, pass);
  const std::int64_t num_row_tiles = divide_up(x.rows(), kernels::cpu::kMaxGemmRows);
  std::int64_t steps = 1;
  for (const PackedProduct& product : products)
    steps = std::max(steps, divide_up(product.matrix->rows(), kOutputStep));
  const std::int64_t wanted = divide_up(
      kItemsPerThread * static_cast<std::int64_t>(pass.pool.num_threads()), num_row_tiles);
  const std::int64_t num_splits = std::min(steps, wanted);
  // Row tiles vary fastest: weights are read from memory once.
  for_each_item(
      pass.pool, num_splits * num_row_tiles, [&](std::int64_t /*worker*/, std::int64_t i) {
        const std::int64_t row = i % num_row_tiles * kernels::cpu::kMaxGemmRows;
        const OutputTile tile = {.first_row = row,
                                 .num_rows = std::min(kernels::cpu::kMaxGemmRows, x.rows() - row),
                                 .split = i / num_row_tiles,
                                 .num_splits = num_splits};
        for (std::size_t p = 0; p < products.size(); ++p) {
          const auto& [matrix, y] = products[p];
          const std::int64_t begin = tile.begin(*matrix);
          const std::int64_t end = tile.end(*matrix);
          if (begin == end) continue;
          multiply_range(*matrix, begin, end - begin, quantized[p].from(row), tile.num_rows,
                         y.f32_row(row) + begin, y.cols());
        }
        epilogue(tile);
      });
}

}  // namespace

void multiply(TensorView x, std::span<const PackedProduct> products, Pass& pass) {
  for ([[maybe_unused]] const auto& [matrix, y] : products) {
    GRAFT_DCHECK(x.cols() == matrix->cols() && y.cols() == matrix->rows() && x.rows() == y.rows(),
                 "[", x.rows(), ", ", x.cols(), "] to [", y.rows(), ", ", y.cols(), "]");
  }
  multiply_tiles(x, products, pass, [](const OutputTile&) {});
}

void multiply_gated(TensorView x,
                    const PackedProduct& gate,
                    const PackedProduct& up,
                    MlpParams::Gate function,
                    Pass& pass) {
  GRAFT_DCHECK(gate.matrix->rows() == up.matrix->rows(), gate.matrix->rows(), " and ",
               up.matrix->rows(), " outputs");
  const std::array products = {gate, up};
  const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
  const auto apply = function == MlpParams::Gate::GeluTanh ? math.gelu_mul : math.silu_mul;
  multiply_tiles(x, products, pass, [&](const OutputTile& tile) {
    const std::int64_t begin = tile.begin(*gate.matrix);
    const std::int64_t count = tile.end(*gate.matrix) - begin;
    for (std::int64_t i = 0; i < tile.num_rows; ++i) {
      float* values = gate.y.f32_row(tile.first_row + i) + begin;
      const float* factors = up.y.f32_row(tile.first_row + i) + begin;
      apply(values, factors, values, count);
    }
  });
}

}  // namespace graft::ops::cpu
