#include <algorithm>

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear_tiled.cuh"

namespace graft::cuda {
namespace {

TiledJob tiled_job(const LinearBatch& products) {
  const Matrix& stack = products.stack;
  const auto address = reinterpret_cast<std::uintptr_t>(products.x.data);
  return {.data = static_cast<const std::uint8_t*>(stack.data),
          .second = static_cast<const std::uint8_t*>(products.second),
          .scales = stack.scales,
          .second_scales = products.second_scales,
          .row_bytes = static_cast<std::int64_t>(stack.row_bytes()),
          .matrix_bytes = static_cast<std::int64_t>(products.matrix_bytes),
          .matrix_ids = products.matrix_ids,
          .bias = products.bias,
          .batch = products.batch,
          .rows = products.rows,
          .in = stack.cols,
          .out = products.out,
          .x = products.x,
          .x_batch_stride = products.x_batch_stride,
          .x_share = products.x_share,
          .x_vectors =
              address % 16 == 0 && products.x.stride % 4 == 0 && products.x_batch_stride % 4 == 0,
          .y = products.y,
          .y_batch_stride = products.y_batch_stride,
          .tiles = nullptr,
          .row_ids = nullptr};
}

TiledLaunch function_for(DType dtype, Arithmetic arithmetic) {
  const bool bf16 = arithmetic == Arithmetic::BF16 && has_tiled_bf16();
  const TiledLaunch function = bf16 ? tiled_bf16(dtype) : tiled_f32(dtype);
  GRAFT_CHECK(function != nullptr, "no kernel multiplies ", name(dtype));
  return function;
}

}  // namespace

void linear_many(const LinearBatch& products, Arithmetic arithmetic, Stream stream) {
  const std::int64_t num_products = products.batch * (products.second != nullptr ? 2 : 1);
  const dim3 grid(blocks_for(products.rows, kTileRows), 1, static_cast<unsigned>(num_products));
  function_for(products.stack.dtype, arithmetic)(tiled_job(products), grid, stream);
}

void linear_grouped(const LinearBatch& products,
                    const RowTiles& rows,
                    Arithmetic arithmetic,
                    Stream stream) {
  TiledJob job = tiled_job(products);
  job.batch = 1;
  job.tiles = rows.tiles;
  job.row_ids = rows.row_ids;
  const dim3 grid(static_cast<unsigned>(rows.count), 1, products.second != nullptr ? 2 : 1);
  function_for(products.stack.dtype, arithmetic)(job, grid, stream);
}

}  // namespace graft::cuda
