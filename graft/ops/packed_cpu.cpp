#include "graft/ops/packed_cpu.h"

#include <algorithm>
#include <array>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

const cpu::PackedKernel& kernel_of(DType dtype) {
  return cpu::kernels().packed.kernels[static_cast<std::size_t>(dtype)];
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
  cpu::pack_panel(weight.dtype, weight.data + static_cast<std::size_t>(begin) * weight.row_bytes(),
                  weight.row_bytes(), std::min(cpu::kPanelRows, weight.rows() - begin),
                  weight.cols(), item.to);
}

void pack_all(std::span<const PanelToPack> items, ThreadPool* pool) {
  if (pool != nullptr) {
    pool->parallel_for(items.size(), [&](std::size_t i) { pack_one(items[i]); });
  } else {
    std::ranges::for_each(items, pack_one);
  }
}

}  // namespace

bool can_pack(DType dtype) {
  return cpu::has_packed_form(dtype);
}

bool can_pack(const Weight& weight) {
  return can_pack(weight.dtype) && !weight.scale;
}

std::int64_t packed_bytes(DType dtype, std::int64_t rows, std::int64_t cols) {
  return divide_up(rows, cpu::kPanelRows) * cpu::panel_bytes(cpu::packed_format(dtype), cols);
}

void PackedMatrix::multiply(std::int64_t begin,
                            std::int64_t count,
                            const std::byte* rounded,
                            std::int64_t num_rows,
                            float* y,
                            std::int64_t ldy) const {
  GRAFT_DCHECK(begin % cpu::kPanelRows == 0 && begin + count <= rows_, begin, " + ", count, " of ",
               rows_);
  kernel_of(dtype_).multiply(panels_.bytes.data() + packed_bytes(dtype_, begin, cols_), count,
                             cols_, rounded, num_rows, y, ldy);
}

std::vector<PackedMatrix> pack(std::span<const Weight> weights, WeightProvider& provider) {
  std::vector<PackedMatrix> matrices(weights.size());
  std::int64_t total = 0;  // of those to pack
  for (std::size_t i = 0; i < weights.size(); ++i) {
    PackedMatrix& matrix = matrices[i];
    matrix.dtype_ = weights[i].dtype;
    matrix.rows_ = weights[i].rows();
    matrix.cols_ = weights[i].cols();
    matrix.panels_ = provider.find_packed(weights[i]);
    if (matrix.empty()) total += packed_bytes(matrix.dtype_, matrix.rows_, matrix.cols_);
  }
  const auto memory = std::make_shared<const Buffer>(static_cast<std::size_t>(total));
  std::byte* next = memory->data();
  std::vector<PanelToPack> items;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!matrices[i].empty()) continue;
    const Weight& weight = weights[i];
    const std::int64_t num_panels = divide_up(weight.rows(), cpu::kPanelRows);
    for (std::int64_t panel = 0; panel < num_panels; ++panel) {
      items.push_back(
          {.weight = &weight,
           .panel = panel,
           .to = next + packed_bytes(weight.dtype, panel * cpu::kPanelRows, weight.cols())});
    }
    const auto bytes =
        static_cast<std::size_t>(packed_bytes(weight.dtype, weight.rows(), weight.cols()));
    matrices[i].panels_ = {.bytes = {next, bytes}, .owner = memory};
    next += bytes;
  }
  pack_all(items, provider.pool());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (matrices[i].panels_.owner == memory) provider.keep_packed(weights[i], matrices[i].panels_);
    provider.release(weights[i]);
  }
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
