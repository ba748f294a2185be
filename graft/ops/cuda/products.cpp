#include "graft/ops/cuda/products.h"

#include "graft/base/error.h"

namespace graft::ops {
namespace {

// Rows of x that the products of a batch have between them: each once.
std::int64_t num_x_rows(const cuda::LinearBatch& products) {
  return (products.batch + products.x_share - 1) / products.x_share * products.rows;
}

// Whole rows one after the other: what the kernels that round them leave behind.
bool are_together(const cuda::LinearBatch& products) {
  return products.batch == 1 || products.x_batch_stride == products.rows * products.stack.cols;
}

bool can_round(const cuda::LinearBatch& products) {
  return cuda::has_linear_q8(products.stack.dtype) && products.stack.cols % 32 == 0 &&
         are_together(products);
}

}  // namespace

Precision precision_kwarg(const BuildContext& context) {
  const std::string text = context.text_kwarg("precision", "fast");
  if (text != "fast" && text != "f32")
    fail(context.module, ": precision is '", text, "', fast and f32 are known");
  return text == "fast" ? Precision::Fast : Precision::F32;
}

void multiply(const cuda::LinearBatch& products,
              Precision precision,
              CudaState& state,
              Workspace& workspace) {
  if (products.rows > kFewRows) {
    const bool is_exact = precision == Precision::F32 || products.stack.dtype == DType::F32;
    if (is_exact || !are_together(products) || !cuda::has_linear_f16())
      return cuda::linear_many(products, state.stream());
    const Workspace::Scope scope(workspace);
    const std::int64_t rows = num_x_rows(products);
    const std::int64_t in = products.stack.cols;
    const TensorView memory =
        workspace.take(DType::U8, {static_cast<std::int64_t>(cuda::half_rows_bytes(rows, in))});
    const cuda::HalfRows half = cuda::half_rows_at(memory.data, rows, in);
    cuda::to_half_rows(products.x, half, rows, in, state.stream());
    return cuda::linear_many_f16(products, half, state.stream());
  }
  if (precision == Precision::F32 || !can_round(products))
    return cuda::linear_few(products, state.stream());
  const Workspace::Scope scope(workspace);
  const std::int64_t rows = num_x_rows(products);
  const std::int64_t in = products.stack.cols;
  const TensorView memory =
      workspace.take(DType::U8, {static_cast<std::int64_t>(cuda::q8_rows_bytes(rows, in))});
  const cuda::Q8Rows q8 = cuda::q8_rows_at(memory.data, rows, in);
  cuda::quantize_rows(products.x, q8, rows, in, state.stream());
  cuda::linear_few_q8(products, q8, state.stream());
}

}  // namespace graft::ops
