#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

namespace graft::kernels::cuda {
namespace {

bool are_vectors(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

TiledJob tiled_job(const LinearBatch& products) {
  const Matrix& stack = products.stack;
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
          .x_vectors = are_vectors(products.x.data) && products.x.stride % 4 == 0 &&
                       products.x_batch_stride % 4 == 0,
          .half = {},
          .half_rows_per_product = 0,
          .y = products.y,
          .y_batch_stride = products.y_batch_stride,
          .tiles = nullptr,
          .row_ids = nullptr};
}

TiledJob tiled_job(const LinearBatch& products, const HalfRows& half) {
  TiledJob job = tiled_job(products);
  job.x_vectors = are_vectors(half.values) && job.in % kRun == 0;
  job.half = half;
  job.half_rows_per_product = products.x_batch_stride / job.in;
  return job;
}

void launch_many(TiledLaunch function,
                 const TiledJob& job,
                 const LinearBatch& products,
                 Stream stream) {
  GRAFT_CHECK(function != nullptr, "no kernel multiplies ", name(products.stack.dtype));
  const std::int64_t num_products = products.batch * (products.second != nullptr ? 2 : 1);
  const dim3 grid(blocks_for(products.rows, kTileRows), 1, static_cast<unsigned>(num_products));
  function(job, grid, stream);
}

void launch_grouped(TiledLaunch function,
                    TiledJob job,
                    const LinearBatch& products,
                    const RowTiles& rows,
                    Stream stream) {
  GRAFT_CHECK(function != nullptr, "no kernel multiplies ", name(products.stack.dtype));
  job.batch = 1;
  job.tiles = rows.tiles;
  job.row_ids = rows.row_ids;
  const dim3 grid(static_cast<unsigned>(rows.count), 1, products.second != nullptr ? 2 : 1);
  function(job, grid, stream);
}

}  // namespace

void gemm(const LinearBatch& products, Stream stream) {
  launch_many(tiled_f32(products.stack.dtype), tiled_job(products), products, stream);
}

void gemm_f16(const LinearBatch& products, const HalfRows& half, Stream stream) {
  launch_many(tiled_f16(products.stack.dtype), tiled_job(products, half), products, stream);
}

void linear_grouped(const LinearBatch& products, const RowTiles& rows, Stream stream) {
  launch_grouped(tiled_f32(products.stack.dtype), tiled_job(products), products, rows, stream);
}

void linear_grouped_f16(const LinearBatch& products,
                        const RowTiles& rows,
                        const HalfRows& half,
                        Stream stream) {
  launch_grouped(tiled_f16(products.stack.dtype), tiled_job(products, half), products, rows,
                 stream);
}

}  // namespace graft::kernels::cuda
