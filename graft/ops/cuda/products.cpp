#include "graft/ops/cuda/products.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/linear/gemm_cublaslt.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Up to here weights are read once for all rows.
constexpr std::int64_t kFewRows = 8;
// Weights that are decoded for NVIDIA's library, at a time.
constexpr std::int64_t kDecodedBytes = std::int64_t{256} << 20U;

// x as the kernels want it, made when it is first asked for.
class QuantizedRows {
 public:
  QuantizedRows(TensorView x, CudaState& state, Workspace& workspace)
      : x_(x), state_(state), workspace_(workspace), scope_(workspace) {}

  const kernels::cuda::Q8Rows& bytes() {
    if (const kernels::cuda::Q8Rows* known = state_.bytes_of(x_)) return *known;
    if (bytes_) return *bytes_;
    const TensorView memory = take(kernels::cuda::q8_rows_bytes(x_.rows(), x_.cols()));
    bytes_ = kernels::cuda::q8_rows_at(memory.data, x_.rows(), x_.cols());
    kernels::cuda::quantize_rows(rows_of(x_), *bytes_, x_.rows(), x_.cols(), state_.stream());
    return *bytes_;
  }

  const kernels::cuda::HalfRows& halves() {
    if (halves_) return *halves_;
    const TensorView memory = take(kernels::cuda::half_rows_bytes(x_.rows(), x_.cols()));
    halves_ = kernels::cuda::half_rows_at(memory.data, x_.rows(), x_.cols());
    kernels::cuda::to_half_rows(rows_of(x_), *halves_, x_.rows(), x_.cols(), state_.stream());
    return *halves_;
  }

 private:
  TensorView take(std::size_t bytes) {
    return workspace_.take(DType::U8, {static_cast<std::int64_t>(bytes)});
  }

  TensorView x_;
  CudaState& state_;
  Workspace& workspace_;
  Workspace::Scope scope_;
  std::optional<kernels::cuda::Q8Rows> bytes_;
  std::optional<kernels::cuda::HalfRows> halves_;
};

kernels::cuda::LinearBatch one(TensorView x, const Product& product) {
  return kernels::cuda::one_linear(*product.weight, product.bias, rows_of(x), rows_of(product.y),
                                   x.rows());
}

bool is_exact(const Product& product) {
  return product.precision == Precision::F32 || product.weight->dtype == DType::F32;
}

// Decoded a part at a time and multiplied by NVIDIA's library; false: it is not there, or has no
// kernel for this.
bool multiply_plain(TensorView x,
                    const Product& product,
                    QuantizedRows& rows,
                    CudaState& state,
                    Workspace& workspace) {
  if (!kernels::cuda::has_cublaslt()) return false;
  const kernels::cuda::Matrix& weight = *product.weight;
  const kernels::cuda::HalfRows& halves = rows.halves();  // stay until the last product
  const Workspace::Scope scope(workspace);
  const bool is_plain = weight.dtype == DType::F16;
  const std::int64_t part_rows =
      is_plain ? weight.rows
               : std::clamp(kDecodedBytes / (2 * weight.cols), std::int64_t{1}, weight.rows);
  const TensorView decoded = workspace.take(DType::F16, {is_plain ? 0 : part_rows, weight.cols});
  const TensorView scratch =
      workspace.take(DType::U8, {static_cast<std::int64_t>(kernels::cuda::kCublasLtWorkspace)});
  for (std::int64_t first = 0; first < weight.rows; first += part_rows) {
    const std::int64_t count = std::min(part_rows, weight.rows - first);
    if (!is_plain) {
      kernels::cuda::decode_rows_f16(weight, first, count, decoded.as<kernels::cuda::Half>(),
                                     state.stream());
    }
    const bool is_done = kernels::cuda::linear_cublaslt(
        {.dtype = DType::F16,
         .weight = is_plain ? weight.data : decoded.data,
         .x = halves.values,
         .x_stride = x.cols(),
         .y = rows_of(product.y, first),
         .rows = x.rows(),
         .out = count,
         .in = x.cols()},
        scratch.data, kernels::cuda::kCublasLtWorkspace, state.stream());
    if (!is_done) return false;
  }
  kernels::cuda::scale_rows(rows_of(product.y), halves.scales, product.bias, x.rows(),
                            product.y.cols(), state.stream());
  return true;
}

void gemm(TensorView x,
          const Product& product,
          QuantizedRows& rows,
          CudaState& state,
          Workspace& workspace) {
  if (is_exact(product) || !kernels::cuda::has_linear_f16())
    return kernels::cuda::gemm(one(x, product), state.stream());
  if (!multiply_plain(x, product, rows, state, workspace))
    kernels::cuda::gemm_f16(one(x, product), rows.halves(), state.stream());
}

// Those of one type in one launch.
void multiply_as_bytes(TensorView x,
                       std::vector<Product> products,
                       QuantizedRows& rows,
                       CudaState& state) {
  while (!products.empty()) {
    const DType dtype = products.front().weight->dtype;
    std::vector<kernels::cuda::MatrixResult> together;
    std::erase_if(products, [&](const Product& product) {
      if (product.weight->dtype != dtype || together.size() == kernels::cuda::kMaxGroupedMatrices)
        return false;
      together.push_back(
          {.weight = *product.weight, .bias = product.bias, .y = rows_of(product.y)});
      return true;
    });
    kernels::cuda::gemv_q8_grouped(together, rows.bytes(), x.rows(), state.stream());
  }
}

}  // namespace

Precision precision_kwarg(const BuildContext& context) {
  const std::string text = context.text_kwarg("precision", "fast");
  if (text != "fast" && text != "f32")
    fail(context.module, ": precision is '", text, "', fast and f32 are known");
  return text == "fast" ? Precision::Fast : Precision::F32;
}

bool is_as_bytes(std::int64_t rows, std::int64_t cols, const Product& product) {
  return product.precision == Precision::Fast && rows <= kMaxRowsAsBytes &&
         kernels::cuda::has_linear_q8(product.weight->dtype) && cols % 32 == 0;
}

void multiply_bytes(const kernels::cuda::Q8Rows& x,
                    std::int64_t rows,
                    const Product& product,
                    CudaState& state) {
  const kernels::cuda::MatrixResult result = {
      .weight = *product.weight, .bias = product.bias, .y = rows_of(product.y)};
  kernels::cuda::gemv_q8_grouped({&result, 1}, x, rows, state.stream());
}

void multiply(TensorView x,
              std::span<const Product> products,
              CudaState& state,
              Workspace& workspace) {
  QuantizedRows rows(x, state, workspace);
  std::vector<Product> as_bytes_together;
  for (const Product& product : products) {
    if (is_as_bytes(x.rows(), x.cols(), product)) {
      as_bytes_together.push_back(product);
    } else if (x.rows() <= kFewRows) {
      kernels::cuda::gemv(one(x, product), state.stream());
    } else {
      gemm(x, product, rows, state, workspace);
    }
  }
  multiply_as_bytes(x, std::move(as_bytes_together), rows, state);
}

}  // namespace graft::ops::cuda
