#include "graft/ops/cpu/packed.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/multiply.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

const kernels::cpu::PackedKernel& kernel_of(DType dtype) {
  return kernels::cpu::kernels().packed.kernels[static_cast<std::size_t>(dtype)];
}

// One panel of the many that are packed at once.
struct PanelToPack {
  const Weight* weight = nullptr;
  std::int64_t begin = 0;  // its first row
  std::byte* to = nullptr;
};

void pack_one(const PanelToPack& item) {
  const Weight& weight = *item.weight;
  const StoredBlock rows(weight, item.begin,
                         std::min(kernels::cpu::kPanelRows, weight.rows() - item.begin));
  kernels::cpu::pack_panel(weight.dtype, rows.rows(), item.to);
}

// Of a matrix's rows those that a node's threads multiply: the same part as of a loop's items.
std::pair<std::int64_t, std::int64_t> rows_of_node(const ThreadPool* pool,
                                                   std::size_t node,
                                                   std::int64_t rows) {
  if (pool == nullptr) return {0, rows};
  const auto [begin, end] =
      pool->share(node, static_cast<std::size_t>(divide_up(rows, kOutputStep)));
  return {static_cast<std::int64_t>(begin) * kOutputStep,
          std::min(rows, static_cast<std::int64_t>(end) * kOutputStep)};
}

// Rows [begin, end) of a weight, to be packed to `to` on; returns where they end.
std::byte* add_panels(const Weight& weight,
                      std::int64_t begin,
                      std::int64_t end,
                      std::byte* to,
                      std::vector<PanelToPack>& items) {
  for (std::int64_t row = begin; row < end; row += kernels::cpu::kPanelRows) {
    items.push_back({.weight = &weight, .begin = row, .to = to});
    to += packed_bytes(weight.dtype, kernels::cpu::kPanelRows, weight.cols());
  }
  return to;
}

void pack_all(std::span<const PanelToPack> items, ThreadPool* pool) {
  if (pool != nullptr) {
    pool->parallel_for_local(items.size(), [&](std::size_t i) { pack_one(items[i]); });
  } else {
    std::ranges::for_each(items, pack_one);
  }
}

}  // namespace

bool can_pack(DType dtype) {
  return kernels::cpu::has_packed_form(dtype);
}

bool can_pack(const Weight& weight) {
  const kernels::cpu::PackedFormat format = kernels::cpu::packed_format(weight.dtype);
  if (kernel_of(weight.dtype).multiply == nullptr) return false;
  if (weight.cols() % kernels::cpu::chunk_elems(format) != 0) return false;
  if (!weight.scale) return true;
  const quant::ScaleLayout& layout = weight.scale->layout;
  return format.scale == kernels::cpu::PackedFormat::Scale::F32 &&
         (layout.scale_cols == 1 || layout.tile_cols % kernels::cpu::chunk_elems(format) == 0);
}

std::int64_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols) {
  return divide_up(rows, kernels::cpu::kPanelRows) *
         kernels::cpu::panel_bytes(kernels::cpu::packed_format(dtype), cols);
}

std::size_t PackedMatrix::bytes() const {
  return static_cast<std::size_t>(packed_bytes(dtype_, rows_, cols_));
}

const std::byte* PackedMatrix::panel(std::int64_t row) const {
  const auto slice = std::ranges::find_if(slices_, [&](const Slice& s) { return row < s.end; });
  return slice->data + packed_bytes(dtype_, row - slice->begin, cols_);
}

void PackedMatrix::multiply(std::int64_t begin,
                            std::int64_t count,
                            const std::byte* rounded,
                            std::int64_t num_rows,
                            float* y,
                            std::int64_t ldy) const {
  GRAFT_DCHECK(begin % kernels::cpu::kPanelRows == 0 && begin + count <= rows_, begin, " + ", count,
               " of ", rows_);
  for (const Slice& slice : slices_) {
    const std::int64_t from = std::max(begin, slice.begin);
    const std::int64_t to = std::min(begin + count, slice.end);
    if (from >= to) continue;
    kernel_of(dtype_).multiply(slice.data + packed_bytes(dtype_, from - slice.begin, cols_),
                               to - from, cols_, rounded, num_rows, y + (from - begin), ldy);
  }
}

std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider) {
  std::vector<PackedMatrix> matrices(weights.size());
  const auto memory = std::make_shared<std::vector<std::shared_ptr<std::byte>>>();  // of each node
  for (std::size_t i = 0; i < weights.size(); ++i) {
    PackedMatrix& matrix = matrices[i];
    matrix.dtype_ = weights[i].dtype;
    matrix.rows_ = weights[i].rows();
    matrix.cols_ = weights[i].cols();
    matrix.owner_ = memory;
    const SharedBytes kept = provider.find_packed(weights[i]);
    if (kept.bytes.empty()) continue;
    matrix.slices_ = {{.begin = 0, .end = matrix.rows_, .data = kept.bytes.data()}};
    matrix.owner_ = kept.owner;
  }
  // What is kept is one piece, the same on every machine.
  const ThreadPool* nodes = provider.keeps_packed() ? nullptr : provider.pool();
  std::vector<PanelToPack> items;
  for (std::size_t node = 0; node < (nodes == nullptr ? 1 : nodes->num_nodes()); ++node) {
    const auto slice_of = [&](const PackedMatrix& matrix) {
      const bool is_here = matrix.owner_ == memory;
      const auto [begin, end] = rows_of_node(nodes, node, is_here ? matrix.rows_ : 0);
      return PackedMatrix::Slice{.begin = begin, .end = end};
    };
    std::size_t bytes = 0;
    for (const PackedMatrix& matrix : matrices) {
      const PackedMatrix::Slice slice = slice_of(matrix);
      bytes += static_cast<std::size_t>(
          packed_bytes(matrix.dtype_, slice.end - slice.begin, matrix.cols_));
    }
    if (bytes == 0) continue;
    std::byte* next = memory->emplace_back(provider.allocate(node, bytes)).get();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      PackedMatrix& matrix = matrices[i];
      PackedMatrix::Slice slice = slice_of(matrix);
      if (slice.begin == slice.end) continue;
      slice.data = next;
      matrix.slices_.push_back(slice);
      next = add_panels(weights[i], slice.begin, slice.end, next, items);
    }
  }
  pack_all(items, provider.pool());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const PackedMatrix& matrix = matrices[i];
    if (matrix.owner_ == memory && provider.keeps_packed()) {
      provider.keep_packed(
          weights[i], {.bytes = {matrix.slices_.front().data, matrix.bytes()}, .owner = memory});
    }
    provider.release(weights[i]);
  }
  return matrices;
}

QuantizedRows::QuantizedRows(DType dtype,
                             std::int64_t cols,
                             std::int64_t num_rows,
                             Workspace& workspace)
    : dtype_(dtype),
      cols_(cols),
      row_bytes_(kernels::cpu::rounded_row_bytes(kernels::cpu::packed_format(dtype), cols)),
      bytes_(workspace.allocate(DType::U8, {num_rows, row_bytes_}).as<std::byte>()) {}

std::int64_t QuantizedRows::tile_rows() {
  return kernels::cpu::kernels().packed.tile_rows;
}

void QuantizedRows::round(std::int64_t first, const float* const* rows, std::int64_t count) const {
  GRAFT_DCHECK(count <= tile_rows(), count, " rows in a tile of ", tile_rows());
  kernel_of(dtype_).round(rows, count, cols_, bytes_ + first * row_bytes_);
}

namespace {

void round_all(const QuantizedRows& rounded, TensorView x, Pass& pass) {
  const std::int64_t tile_rows = QuantizedRows::tile_rows();
  const auto round_tile = [&](std::int64_t tile) {
    std::array<const float*, kernels::cpu::kMaxRows> rows;
    const std::int64_t first = tile * tile_rows;
    const std::int64_t count = std::min(tile_rows, x.rows() - first);
    for (std::int64_t i = 0; i < count; ++i)
      rows[static_cast<std::size_t>(i)] = x.f32_row(first + i);
    rounded.round(first, rows.data(), count);
  };
  const std::int64_t num_tiles = divide_up(x.rows(), tile_rows);
  if (x.rows() * x.cols() <= kElemsAlone) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile)
      round_tile(tile);
  } else {
    for_each_item(pass.pool, num_tiles,
                  [&](std::int64_t /*worker*/, std::int64_t tile) { round_tile(tile); });
  }
}

// Rows of x for each of several matrices.
std::array<QuantizedRows, kMaxProducts> round_for(std::span<const PackedProduct> products,
                                                  TensorView x,
                                                  Pass& pass) {
  std::array<QuantizedRows, kMaxProducts> rounded;
  for (std::size_t i = 0; i < products.size(); ++i) {
    const DType dtype = products[i].matrix->dtype();
    const auto before = std::span(rounded).first(i);
    const auto same = std::ranges::find(before, dtype, &QuantizedRows::dtype);
    if (same != before.end()) {
      rounded[i] = *same;
      continue;
    }
    rounded[i] = QuantizedRows(dtype, x.cols(), x.rows(), pass.workspace);
    round_all(rounded[i], x, pass);
  }
  return rounded;
}

// A piece of the work: some rows of x with a part of every matrix.
struct Piece {
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  std::int64_t part = 0;
  std::int64_t num_parts = 0;

  // The outputs of this part of a matrix, in whole steps.
  std::int64_t begin(const PackedMatrix& matrix) const { return start_of(part, matrix); }
  std::int64_t end(const PackedMatrix& matrix) const { return start_of(part + 1, matrix); }

 private:
  std::int64_t start_of(std::int64_t i, const PackedMatrix& matrix) const {
    const std::int64_t steps = divide_up(matrix.rows(), kOutputStep);
    return std::min(matrix.rows(), steps * i / num_parts * kOutputStep);
  }
};

// Calls then(piece) when the outputs of a piece are there.
template <class Then>
void multiply_pieces(TensorView x,
                     std::span<const PackedProduct> products,
                     Pass& pass,
                     const Then& then) {
  GRAFT_DCHECK(products.size() <= kMaxProducts, products.size(), " products");
  if (x.rows() == 0) return;
  const Workspace::Scope scope(pass.workspace);
  const std::array rounded = round_for(products, x, pass);
  const std::int64_t num_chunks = divide_up(x.rows(), kernels::cpu::kMaxRows);
  std::int64_t steps = 1;
  for (const PackedProduct& product : products)
    steps = std::max(steps, divide_up(product.matrix->rows(), kOutputStep));
  const std::int64_t wanted =
      divide_up(kItemsPerThread * static_cast<std::int64_t>(pass.pool.num_threads()), num_chunks);
  const std::int64_t num_parts = std::min(steps, wanted);
  // Pieces of the same weights follow each other: they are read from memory once.
  for_each_item(pass.pool, num_parts * num_chunks, [&](std::int64_t /*worker*/, std::int64_t i) {
    const std::int64_t row = i % num_chunks * kernels::cpu::kMaxRows;
    const Piece piece = {.first_row = row,
                         .num_rows = std::min(kernels::cpu::kMaxRows, x.rows() - row),
                         .part = i / num_chunks,
                         .num_parts = num_parts};
    for (std::size_t p = 0; p < products.size(); ++p) {
      const auto& [matrix, y] = products[p];
      const std::int64_t begin = piece.begin(*matrix);
      const std::int64_t end = piece.end(*matrix);
      if (begin == end) continue;
      matrix->multiply(begin, end - begin, rounded[p].from(row), piece.num_rows,
                       y.f32_row(row) + begin, y.cols());
    }
    then(piece);
  });
}

}  // namespace

void multiply(TensorView x, std::span<const PackedProduct> products, Pass& pass) {
  for ([[maybe_unused]] const auto& [matrix, y] : products) {
    GRAFT_DCHECK(x.cols() == matrix->cols() && y.cols() == matrix->rows() && x.rows() == y.rows(),
                 "[", x.rows(), ", ", x.cols(), "] to [", y.rows(), ", ", y.cols(), "]");
  }
  multiply_pieces(x, products, pass, [](const Piece&) {});
}

void multiply_gated(TensorView x, const PackedProduct& gate, const PackedProduct& up, Pass& pass) {
  GRAFT_DCHECK(gate.matrix->rows() == up.matrix->rows(), gate.matrix->rows(), " and ",
               up.matrix->rows(), " outputs");
  const std::array products = {gate, up};
  multiply_pieces(x, products, pass, [&](const Piece& piece) {
    const std::int64_t begin = piece.begin(*gate.matrix);
    const std::int64_t count = piece.end(*gate.matrix) - begin;
    for (std::int64_t i = 0; i < piece.num_rows; ++i) {
      float* values = gate.y.f32_row(piece.first_row + i) + begin;
      const float* factors = up.y.f32_row(piece.first_row + i) + begin;
      kernels::cpu::kernels().math.silu_mul(values, factors, values, count);
    }
  });
}

}  // namespace graft::ops::cpu
