// Entry points of the tiled GEMM kernels.

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/gemm_tiled.cuh"

namespace graft::kernels::cuda {
namespace {

bool is_vector_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

GemmJob gemm_job(const LinearBatch& products) {
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
          .products_per_x = products.products_per_x,
          .x_vectors = is_vector_aligned(products.x.data) && products.x.stride % 4 == 0 &&
                       products.x_batch_stride % 4 == 0,
          .f16 = {},
          .f16_rows_per_product = 0,
          .y = products.y,
          .y_batch_stride = products.y_batch_stride,
          .tiles = nullptr,
          .row_ids = nullptr};
}

GemmJob gemm_job(const LinearBatch& products, const F16Rows& f16) {
  GemmJob job = gemm_job(products);
  job.x_vectors = is_vector_aligned(f16.values) && job.in % kRun == 0;
  job.f16 = f16;
  job.f16_rows_per_product = products.x_batch_stride / job.in;
  return job;
}

void launch_gemm(GemmLaunch function,
                 const GemmJob& job,
                 const LinearBatch& products,
                 Stream stream) {
  GRAFT_CHECK(function != nullptr, "no GEMM kernel for weights of type ",
              name(products.stack.dtype));
  const std::int64_t num_products = products.batch * (products.second != nullptr ? 2 : 1);
  const dim3 grid(blocks_for(products.rows, kGemmTileRows), 1, static_cast<unsigned>(num_products));
  function(job, grid, stream);
}

void launch_gemm_experts(GemmLaunch function,
                         GemmJob job,
                         const LinearBatch& products,
                         const RowTiles& rows,
                         Stream stream) {
  GRAFT_CHECK(function != nullptr, "no GEMM kernel for weights of type ",
              name(products.stack.dtype));
  job.batch = 1;
  job.tiles = rows.tiles;
  job.row_ids = rows.row_ids;
  const dim3 grid(static_cast<unsigned>(rows.count), 1, products.second != nullptr ? 2 : 1);
  function(job, grid, stream);
}

}  // namespace

void gemm(const LinearBatch& products, Stream stream) {
  launch_gemm(gemm_tiled_f32(products.stack.dtype), gemm_job(products), products, stream);
}

void gemm_f16(const LinearBatch& products, const F16Rows& f16, Stream stream) {
  launch_gemm(gemm_tiled_f16(products.stack.dtype), gemm_job(products, f16), products, stream);
}

void gemm_experts(const LinearBatch& products, const RowTiles& rows, Stream stream) {
  launch_gemm_experts(gemm_tiled_f32(products.stack.dtype), gemm_job(products), products, rows,
                      stream);
}

void gemm_experts_f16(const LinearBatch& products,
                      const RowTiles& rows,
                      const F16Rows& f16,
                      Stream stream) {
  launch_gemm_experts(gemm_tiled_f16(products.stack.dtype), gemm_job(products, f16), products, rows,
                      stream);
}

}  // namespace graft::kernels::cuda
