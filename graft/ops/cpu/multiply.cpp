#include "graft/ops/cpu/multiply.h"

#include <algorithm>
#include <limits>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/cpu/workers.h"

namespace graft::ops::cpu {
namespace {

// A block of 256 KiB of floats stays in the L2 cache while it is multiplied with all rows of x. 24
// rows are a multiple of every kernel's tile height, so blocks leave no partial tiles.
constexpr std::int64_t kBlockElems = 65536;
constexpr std::int64_t kRowStep = 24;

// Aligned f32 weights are multiplied in place.
bool is_plain(const Weight& weight) {
  const auto address = reinterpret_cast<std::uintptr_t>(weight.data);
  return weight.dtype == DType::F32 && !weight.scale && address % alignof(float) == 0;
}

using MatmulOfStored = void (*)(kernels::cpu::RowsF32 x,
                                kernels::cpu::StoredRows w,
                                float* y,
                                std::int64_t ldy);

// The fused kernel of FP8, F16 and BF16 weights; null: dequantize first. The FP8 kernels apply
// scales per 32 columns.
MatmulOfStored matmul_of_stored(const Weight& weight) {
  const kernels::cpu::MathTable& math = kernels::cpu::kernels().math;
  const bool can_scale = !weight.scale || weight.scale->layout.scale_cols == 1 ||
                         weight.scale->layout.tile_cols % 32 == 0;
  if (weight.dtype == DType::F8_E4M3 && can_scale) return math.matmul_e4m3;
  if (weight.dtype == DType::F8_E5M2 && can_scale) return math.matmul_e5m2;
  if (weight.scale) return nullptr;
  if (weight.dtype == DType::F16) return math.matmul_f16;
  return weight.dtype == DType::BF16 ? math.matmul_bf16 : nullptr;
}

// The fused FP8 kernels dequantize again for every four rows of x. With more rows than this,
// dequantizing first is faster (measured break-even: E4M3 at 26 rows, E5M2 at 52).
constexpr std::int64_t kMaxFusedFp8Rows = 32;

// Max rows of x for the fused kernel; 0: there is none.
std::int64_t max_fused_rows(const Weight& weight) {
  if (matmul_of_stored(weight) == nullptr) return 0;
  return info(weight.dtype).block_bytes == 1 ? kMaxFusedFp8Rows
                                             : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

StoredBlock::StoredBlock(const Weight& weight, std::int64_t begin, std::int64_t count) {
  static constexpr float kOne = 1.0F;
  const auto stride = static_cast<std::int64_t>(weight.row_bytes());
  rows_ = {.data = weight.data + begin * stride,
           .rows = count,
           .cols = weight.cols(),
           .stride = stride,
           .scales = scales_.data(),
           .cols_per_scale = weight.scale ? weight.scale->layout.tile_cols : weight.cols()};
  for (std::int64_t row = 0; row < count; ++row) {
    const float*& scales = scales_[static_cast<std::size_t>(row)];
    scales = &kOne;
    if (!weight.scale) continue;
    const quant::ScaleLayout& layout = weight.scale->layout;
    scales = weight.scale->values.data() + layout.scale_row(begin + row) * layout.scale_cols;
  }
}

std::int64_t rows_per_block(const Weight& weight) {
  const std::int64_t steps = kBlockElems / kRowStep / std::max<std::int64_t>(1, weight.cols());
  return kRowStep * std::clamp<std::int64_t>(steps, 1, kMaxRowsPerBlock / kRowStep);
}

std::int64_t scratch_elems(const Weight& weight) {
  const bool needs_decode =
      !is_plain(weight) && max_fused_rows(weight) != std::numeric_limits<std::int64_t>::max();
  return needs_decode ? rows_per_block(weight) * weight.cols() : 0;
}

void multiply_block(const Weight& weight,
                    std::int64_t begin,
                    std::int64_t count,
                    kernels::cpu::RowsF32 x,
                    float* y,
                    std::int64_t ldy,
                    float* scratch) {
  const std::int64_t cols = weight.cols();
  const MatmulOfStored matmul = matmul_of_stored(weight);
  if (matmul != nullptr && x.rows <= max_fused_rows(weight)) {
    const StoredBlock block(weight, begin, count);
    matmul(x, block.rows(), y, ldy);
    return;
  }
  const float* rows = scratch;
  if (is_plain(weight)) {
    rows = reinterpret_cast<const float*>(weight.data) + begin * cols;
  } else {
    weight.decode_rows(begin, count, scratch);
  }
  kernels::cpu::kernels().math.matmul(x, {.data = rows, .rows = count, .stride = cols}, cols, y,
                                      ldy);
}

void multiply(const Weight& weight, TensorView x, TensorView y, Pass& pass) {
  GRAFT_DCHECK(x.cols() == weight.cols() && y.cols() == weight.rows() && x.rows() == y.rows(),
               weight.name, ": [", x.rows(), ", ", x.cols(), "] to [", y.rows(), ", ", y.cols(),
               "]");
  const std::int64_t step = rows_per_block(weight);
  const std::int64_t num_blocks = (weight.rows() + step - 1) / step;
  const Workspace::Scope scope(pass.workspace);
  const TensorView scratch =
      pass.workspace.f32({num_workers(pass.pool, num_blocks), scratch_elems(weight)});
  for_each_item(pass.pool, num_blocks, [&](std::int64_t worker, std::int64_t block) {
    const std::int64_t begin = block * step;
    const std::int64_t count = std::min(step, weight.rows() - begin);
    multiply_block(weight, begin, count, rows_of(x), y.f32() + begin, y.cols(),
                   scratch.f32_row(worker));
  });
}

}  // namespace graft::ops::cpu
