// Entry points of the grouped GEMM with F16 weights on tensor cores.

#include "graft/base/check.h"
#include "graft/kernels/cuda/linear/gemm_mma.cuh"

namespace graft::kernels::cuda {
namespace {

// mma.m16n8k16 and cp.async exist from sm_80 on; code for older GPUs is empty and not called.
constexpr int kFirstCapability = 80;

// 128 x 128 blocks of 4 warps with 64 x 64 each; two blocks fit on an SM of 228 KiB, so that one
// multiplies while the other starts or stores.
using Shape = MmaShape<128, 64, 3, 4, 2>;

bool is_chunk_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}

}  // namespace

MmaJob mma_job(const LinearBatch& products, const RowTiles& rows, const F16Rows& f16) {
  const std::int64_t row_chunks = products.stack.cols / kChunkValues;
  GRAFT_CHECK(products.stack.dtype == DType::F16 && can_use_gemm_mma(products.stack.cols),
              "gemm_mma: weights of type ", name(products.stack.dtype), " with ",
              products.stack.cols, " columns");
  GRAFT_CHECK(is_chunk_aligned(products.stack.data) && is_chunk_aligned(products.second) &&
                  is_chunk_aligned(f16.values) && products.matrix_bytes % 16 == 0,
              "gemm_mma: weights and rows must be 16-byte aligned");
  GRAFT_CHECK(products.bias == nullptr, "gemm_mma: bias is not supported");
  return {.weights = static_cast<const uint4*>(products.stack.data),
          .second = static_cast<const uint4*>(products.second),
          .matrix_chunks = static_cast<std::int64_t>(products.matrix_bytes / 16),
          .x = reinterpret_cast<const uint4*>(f16.values),
          .scales = f16.scales,
          .row_chunks = static_cast<std::uint32_t>(row_chunks),
          .x_row_chunks = static_cast<std::uint32_t>(row_chunks * f16.row_stride),
          .x_row_stride = static_cast<std::uint32_t>(f16.row_stride),
          .products_per_x = static_cast<std::int32_t>(products.products_per_x),
          .out = static_cast<std::int32_t>(products.out),
          .y = products.y,
          .y_pairs = reinterpret_cast<std::uintptr_t>(products.y.data) % 8 == 0 &&
                     products.y.stride % 2 == 0,
          .tiles = rows.tiles,
          .row_ids = rows.row_ids};
}

bool has_gemm_mma() {
  return is_compiled_for(kFirstCapability, gemm_mma_kernel<Shape, false>) &&
         max_shared_bytes() >= static_cast<std::size_t>(Shape::kSharedBytes);
}

bool can_use_gemm_mma(std::int64_t in) {
  return in > 0 && in % kChunkValues == 0;
}

void gemm_experts_mma(const LinearBatch& products,
                      const RowTiles& rows,
                      const F16Rows& f16,
                      Stream stream) {
  GRAFT_CHECK(products.second == nullptr, "gemm_experts_mma: one stack only");
  launch_gemm_mma<Shape, false>(mma_job(products, rows, f16), rows.count, stream);
}

void gemm_experts_silu_mma(const LinearBatch& products,
                           const RowTiles& rows,
                           const F16Rows& f16,
                           Stream stream) {
  GRAFT_CHECK(products.second != nullptr, "gemm_experts_silu_mma: no second stack");
  launch_gemm_mma<Shape, true>(mma_job(products, rows, f16), rows.count, stream);
}

}  // namespace graft::kernels::cuda
