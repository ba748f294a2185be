#include "graft/ops/packed_cpu.h"

#include <algorithm>
#include <array>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/multiply_cpu.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

const cpu::PackedKernel& kernel_of(DType dtype) {
  return cpu::kernels().packed.kernels[static_cast<std::size_t>(dtype)];
}

std::int64_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols) {
  return divide_up(rows, cpu::kPanelRows) * cpu::panel_bytes(cpu::packed_format(dtype), cols);
}

// One panel of the many that are packed at once.
struct PanelToPack {
  const Weight* weight = nullptr;
  std::int64_t panel = 0;
  std::byte* to = nullptr;
};

void pack_one(const PanelToPack& item) {
  const Weight& weight = *item.weight;
  const std::int64_t begin = item.panel * cpu::kPanelRows;
  const StoredBlock rows(weight, begin, std::min(cpu::kPanelRows, weight.rows() - begin));
  cpu::pack_panel(weight.dtype, rows.rows(), item.to);
}

}  // namespace

bool can_pack(const Weight& weight) {
  const cpu::PackedFormat format = cpu::packed_format(weight.dtype);
  if (kernel_of(weight.dtype).multiply == nullptr) return false;
  if (weight.cols() % cpu::chunk_elems(format) != 0) return false;
  if (!weight.scale) return true;
  const quant::ScaleLayout& layout = weight.scale->layout;
  return format.scale == cpu::PackedFormat::Scale::F32 &&
         (layout.scale_cols == 1 || layout.tile_cols % cpu::chunk_elems(format) == 0);
}

std::size_t PackedMatrix::bytes() const {
  return static_cast<std::size_t>(packed_bytes(dtype_, rows_, cols_));
}

void PackedMatrix::multiply(std::int64_t begin,
                            std::int64_t count,
                            const std::byte* rounded,
                            std::int64_t num_rows,
                            float* y,
                            std::int64_t ldy) const {
  GRAFT_DCHECK(begin % cpu::kPanelRows == 0 && begin + count <= rows_, begin, " + ", count, " of ",
               rows_);
  kernel_of(dtype_).multiply(data_ + packed_bytes(dtype_, begin, cols_), count, cols_, rounded,
                             num_rows, y, ldy);
}

std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider) {
  std::int64_t total = 0;
  for (const Weight& weight : weights)
    total += packed_bytes(weight.dtype, weight.rows(), weight.cols());
  const auto memory = std::make_shared<const Buffer>(static_cast<std::size_t>(total));
  std::byte* next = memory->data();
  std::vector<PackedMatrix> matrices;
  std::vector<PanelToPack> items;
  for (const Weight& weight : weights) {
    PackedMatrix matrix;
    matrix.dtype_ = weight.dtype;
    matrix.rows_ = weight.rows();
    matrix.cols_ = weight.cols();
    matrix.data_ = next;
    matrix.owner_ = memory;
    const std::int64_t num_panels = divide_up(weight.rows(), cpu::kPanelRows);
    for (std::int64_t panel = 0; panel < num_panels; ++panel) {
      items.push_back(
          {.weight = &weight,
           .panel = panel,
           .to = next + packed_bytes(weight.dtype, panel * cpu::kPanelRows, weight.cols())});
    }
    next += matrix.bytes();
    matrices.push_back(std::move(matrix));
  }
  if (ThreadPool* pool = provider.pool()) {
    pool->parallel_for(items.size(), [&](std::size_t i) { pack_one(items[i]); });
  } else {
    std::ranges::for_each(items, pack_one);
  }
  for (const Weight& weight : weights)
    provider.release(weight);
  return matrices;
}

RoundedRows::RoundedRows(DType dtype,
                         std::int64_t cols,
                         std::int64_t num_rows,
                         Workspace& workspace)
    : dtype_(dtype),
      cols_(cols),
      row_bytes_(cpu::rounded_row_bytes(cpu::packed_format(dtype), cols)),
      bytes_(workspace.take(DType::U8, {num_rows, row_bytes_}).as<std::byte>()) {}

std::int64_t RoundedRows::tile_rows() {
  return cpu::kernels().packed.tile_rows;
}

void RoundedRows::round(std::int64_t first, const float* const* rows, std::int64_t count) const {
  GRAFT_DCHECK(count <= tile_rows(), count, " rows in a tile of ", tile_rows());
  kernel_of(dtype_).round(rows, count, cols_, bytes_ + first * row_bytes_);
}

namespace {

void round_all(const RoundedRows& rounded, TensorView x, Pass& pass) {
  const std::int64_t tile_rows = RoundedRows::tile_rows();
  const auto round_tile = [&](std::int64_t tile) {
    std::array<const float*, cpu::kMostRows> rows;
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

}  // namespace

void multiply(const PackedMatrix& matrix, TensorView x, TensorView y, Pass& pass) {
  GRAFT_DCHECK(x.cols() == matrix.cols() && y.cols() == matrix.rows() && x.rows() == y.rows(), "[",
               x.rows(), ", ", x.cols(), "] to [", y.rows(), ", ", y.cols(), "]");
  if (x.rows() == 0) return;
  const Workspace::Scope scope(pass.workspace);
  const RoundedRows rounded(matrix.dtype(), matrix.cols(), x.rows(), pass.workspace);
  round_all(rounded, x, pass);

  const std::int64_t num_chunks = divide_up(x.rows(), cpu::kMostRows);
  const std::int64_t wanted =
      divide_up(kItemsPerThread * static_cast<std::int64_t>(pass.pool.num_threads()), num_chunks);
  const std::int64_t steps = divide_up(matrix.rows(), kOutputStep);
  const std::int64_t step = kOutputStep * std::max<std::int64_t>(1, steps / wanted);
  const std::int64_t num_items = divide_up(matrix.rows(), step) * num_chunks;
  // Pieces of the same weights follow each other: they are read from memory once.
  for_each_item(pass.pool, num_items, [&](std::int64_t /*worker*/, std::int64_t item) {
    const std::int64_t row = item % num_chunks * cpu::kMostRows;
    const std::int64_t begin = item / num_chunks * step;
    matrix.multiply(begin, std::min(step, matrix.rows() - begin), rounded.from(row),
                    std::min(cpu::kMostRows, x.rows() - row), y.f32_row(row) + begin, y.cols());
  });
}

}  // namespace graft::ops
