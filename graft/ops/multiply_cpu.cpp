#include "graft/ops/multiply_cpu.h"

#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cpu/table.h"
#include "graft/ops/workers.h"

namespace graft::ops {
namespace {

// A block of 256 KiB of floats stays in the second-level cache while the rows of x pass by; 24 is a
// multiple of every tile's height, so blocks that long leave no narrow tiles.
constexpr std::int64_t kBlockElems = 65536;
constexpr std::int64_t kRowStep = 24;

// Float weights are multiplied where they are.
bool is_plain(const Weight& weight) {
  const auto address = reinterpret_cast<std::uintptr_t>(weight.data);
  return weight.dtype == DType::F32 && !weight.scale && address % alignof(float) == 0;
}

// Up to here rows of 16-bit floats are multiplied as they are read: decoding them first would take
// longer than the products.
constexpr std::int64_t kFewRows = 4;

// Null for types that are decoded first.
auto matmul_of_stored(const Weight& weight, std::int64_t num_rows) {
  const cpu::MathTable& math = cpu::kernels().math;
  if (weight.scale || num_rows > kFewRows) return decltype(math.matmul_f16){};
  if (weight.dtype == DType::F16) return math.matmul_f16;
  return weight.dtype == DType::BF16 ? math.matmul_bf16 : nullptr;
}

}  // namespace

std::int64_t rows_per_block(const Weight& weight) {
  const std::int64_t steps = kBlockElems / kRowStep / std::max<std::int64_t>(1, weight.cols());
  return kRowStep * std::clamp<std::int64_t>(steps, 1, 8);
}

std::int64_t scratch_elems(const Weight& weight) {
  return is_plain(weight) ? 0 : rows_per_block(weight) * weight.cols();
}

void multiply_block(const Weight& weight,
                    std::int64_t begin,
                    std::int64_t count,
                    cpu::RowsF32 x,
                    float* y,
                    std::int64_t ldy,
                    float* scratch) {
  const std::int64_t cols = weight.cols();
  if (const auto matmul = matmul_of_stored(weight, x.rows)) {
    const auto stride = static_cast<std::int64_t>(weight.row_bytes());
    matmul(x, {.data = weight.data + begin * stride, .rows = count, .cols = cols, .stride = stride},
           y, ldy);
    return;
  }
  const float* rows = scratch;
  if (is_plain(weight)) {
    rows = reinterpret_cast<const float*>(weight.data) + begin * cols;
  } else {
    weight.decode_rows(begin, count, scratch);
  }
  cpu::kernels().math.matmul(x, {.data = rows, .rows = count, .stride = cols}, cols, y, ldy);
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

}  // namespace graft::ops
