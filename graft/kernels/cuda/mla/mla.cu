#include "graft/kernels/cuda/mla/mla.h"

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/formats/bits.cuh"

namespace graft::kernels::cuda {
namespace {

constexpr int kThreads = 256;
// Above this, gemm tiles of 64 rows are faster than reading the weights once per 8 rows.
constexpr std::int64_t kMaxGemvRows = 8;

__device__ void store(float* to, float value) {
  *to = value;
}

__device__ void store(Half* to, float value) {
  *to = to_half(value);
}

// One thread per value, in the order of kv_b.
template <class Value>
__global__ void split_kv_b_kernel(MlaShape shape, const float* kv_b, Value* keys, Value* values) {
  begin_kernel();
  const std::int64_t rows_of_head = shape.nope + shape.value;
  const std::int64_t item = global_thread();
  if (item >= shape.num_heads * rows_of_head * shape.rank) return;
  const std::int64_t col = item % shape.rank;
  const std::int64_t row = item / shape.rank % rows_of_head;
  const std::int64_t head = item / shape.rank / rows_of_head;
  if (row < shape.nope) {
    store(keys + (head * shape.rank + col) * shape.nope + row, kv_b[item]);
  } else {
    store(values + (head * shape.value + row - shape.nope) * shape.rank + col, kv_b[item]);
  }
}

LinearBatch head_products(
    const MlaShape& shape, DType dtype, const void* data, std::int64_t out, std::int64_t in) {
  return {.stack = {.dtype = dtype, .data = data, .cols = in},
          .out = out,
          .matrix_bytes = bytes_of(dtype, out * in),
          .batch = shape.num_heads};
}

bool uses_gemm_f16(DType dtype, std::int64_t rows) {
  return dtype == DType::F16 && rows > kMaxGemvRows && has_gemm_f16();
}

// F16 rows of x, one per token and head.
std::size_t scratch_bytes(const MlaShape& shape, DType dtype, std::int64_t rows, std::int64_t in) {
  return uses_gemm_f16(dtype, rows) ? half_rows_bytes(rows * shape.num_heads, in) : 0;
}

// One product per head. Row (token, head) of x starts at (token * heads + head) * x_batch_stride.
void multiply(const LinearBatch& products, void* scratch, Stream stream) {
  if (uses_gemm_f16(products.stack.dtype, products.rows)) {
    const std::int64_t heads = products.batch;
    const std::int64_t in = products.stack.cols;
    F16Rows f16 = half_rows_at(scratch, products.rows * heads, in);
    to_half_rows({products.x.data, products.x_batch_stride}, f16, products.rows * heads, in,
                 stream);
    f16.row_stride = heads;
    LinearBatch f16_products = products;
    f16_products.x_batch_stride = in;  // the F16 rows are contiguous
    gemm_f16(f16_products, f16, stream);
  } else if (products.rows > kMaxGemvRows) {
    gemm(products, stream);
  } else {
    gemv(products, stream);
  }
}

}  // namespace

void split_kv_b(const MlaShape& shape, const float* kv_b, const MlaWeights& out, Stream stream) {
  const std::int64_t items = shape.num_heads * (shape.nope + shape.value) * shape.rank;
  const LaunchShape grid = {blocks_for(items, kThreads), kThreads};
  GRAFT_CHECK(out.dtype == DType::F32 || out.dtype == DType::F16, name(out.dtype));
  if (out.dtype == DType::F32) {
    launch("split_kv_b", split_kv_b_kernel<float>, grid, stream, shape, kv_b,
           static_cast<float*>(out.keys), static_cast<float*>(out.values));
  } else {
    launch("split_kv_b", split_kv_b_kernel<Half>, grid, stream, shape, kv_b,
           static_cast<Half*>(out.keys), static_cast<Half*>(out.values));
  }
}

std::size_t absorb_queries_bytes(const MlaShape& shape,
                                 const MlaWeights& weights,
                                 std::int64_t rows) {
  return scratch_bytes(shape, weights.dtype, rows, shape.nope);
}

void absorb_queries(const MlaShape& shape,
                    const MlaWeights& weights,
                    const float* queries,
                    float* absorbed,
                    std::int64_t rows,
                    void* scratch,
                    Stream stream) {
  const std::int64_t query_dim = shape.nope + shape.rope;
  const std::int64_t key_dim = shape.rank + shape.rope;
  LinearBatch products = head_products(shape, weights.dtype, weights.keys, shape.rank, shape.nope);
  products.rows = rows;
  products.x = {queries, shape.num_heads * query_dim};
  products.x_batch_stride = query_dim;
  products.y = {absorbed, shape.num_heads * key_dim};
  products.y_batch_stride = key_dim;
  multiply(products, scratch, stream);
  // The RoPE columns are copied unchanged.
  copy_columns({queries + shape.nope, query_dim}, {absorbed + shape.rank, key_dim},
               rows * shape.num_heads, shape.rope, stream);
}

std::size_t project_values_bytes(const MlaShape& shape,
                                 const MlaWeights& weights,
                                 std::int64_t rows) {
  return scratch_bytes(shape, weights.dtype, rows, shape.rank);
}

void project_values(const MlaShape& shape,
                    const MlaWeights& weights,
                    const float* mixed,
                    Rows out,
                    std::int64_t rows,
                    void* scratch,
                    Stream stream) {
  LinearBatch products =
      head_products(shape, weights.dtype, weights.values, shape.value, shape.rank);
  products.rows = rows;
  products.x = {mixed, shape.num_heads * shape.rank};
  products.x_batch_stride = shape.rank;
  products.y = out;
  products.y_batch_stride = shape.value;
  multiply(products, scratch, stream);
}

}  // namespace graft::kernels::cuda
