#include "graft/ops/cuda/products.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/linear/gemm_cublaslt.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

// Max rows for which the GEMV kernels read the weights once.
constexpr std::int64_t kMaxGemvRows = 8;
// Bytes of weights dequantized to f16 at a time for cuBLASLt.
constexpr std::int64_t kDecodedBytes = std::int64_t{256} << 20U;

// x in the formats of the kernels, converted on first use.
class ConvertedRows {
 public:
  ConvertedRows(const Activation& x, CudaContext& gpu, Workspace& workspace)
      : x_(x), gpu_(gpu), workspace_(workspace), scope_(workspace) {}

  kernels::cuda::ConstRows f32() const {
    GRAFT_CHECK(x_.has_f32(), "the kernel requires f32 rows, the activation has int8 rows only");
    return rows_of(x_.f32);
  }

  kernels::cuda::Q8Rows int8() {
    if (!x_.has_int8()) {
      x_.int8 = allocate_int8(x_.rows(), x_.cols(), workspace_);
      kernels::cuda::quantize_rows(f32(), q8_rows_of(x_.int8), x_.rows(), x_.cols(), gpu_.stream());
    }
    return q8_rows_of(x_.int8);
  }

  const kernels::cuda::F16Rows& halves() {
    if (halves_) return *halves_;
    const auto bytes = kernels::cuda::half_rows_bytes(x_.rows(), x_.cols());
    const TensorView memory = workspace_.allocate(DType::U8, {static_cast<std::int64_t>(bytes)});
    halves_ = kernels::cuda::half_rows_at(memory.data, x_.rows(), x_.cols());
    kernels::cuda::to_half_rows(f32(), *halves_, x_.rows(), x_.cols(), gpu_.stream());
    return *halves_;
  }

 private:
  Activation x_;
  CudaContext& gpu_;
  Workspace& workspace_;
  Workspace::Scope scope_;
  std::optional<kernels::cuda::F16Rows> halves_;
};

kernels::cuda::LinearBatch one(const ConvertedRows& x, const Product& product) {
  return kernels::cuda::one_linear(*product.weight, product.bias, x.f32(), rows_of(product.y),
                                   product.y.rows());
}

bool is_exact(const Product& product) {
  return product.precision == Precision::F32 || product.weight->dtype == DType::F32;
}

// Dequantizes a chunk of the weight at a time and multiplies with cuBLASLt. False: the library is
// not installed, or has no kernel for this.
bool gemm_cublaslt(const Activation& x,
                   const Product& product,
                   ConvertedRows& rows,
                   CudaContext& gpu,
                   Workspace& workspace) {
  if (!kernels::cuda::has_cublaslt()) return false;
  const kernels::cuda::Matrix& weight = *product.weight;
  const kernels::cuda::F16Rows& halves = rows.halves();  // valid until the last chunk
  const Workspace::Scope scope(workspace);
  const bool is_f16 = weight.dtype == DType::F16;
  const std::int64_t chunk_rows =
      is_f16 ? weight.rows
             : std::clamp(kDecodedBytes / (2 * weight.cols), std::int64_t{1}, weight.rows);
  const TensorView decoded = workspace.allocate(DType::F16, {is_f16 ? 0 : chunk_rows, weight.cols});
  const TensorView scratch =
      workspace.allocate(DType::U8, {static_cast<std::int64_t>(kernels::cuda::kCublasLtWorkspace)});
  for (std::int64_t first = 0; first < weight.rows; first += chunk_rows) {
    const std::int64_t count = std::min(chunk_rows, weight.rows - first);
    if (!is_f16) {
      kernels::cuda::decode_rows_f16(weight, first, count, decoded.as<kernels::cuda::Half>(),
                                     gpu.stream());
    }
    const bool is_done =
        kernels::cuda::gemm_cublaslt({.dtype = DType::F16,
                                      .weight = is_f16 ? weight.data : decoded.data,
                                      .x = halves.values,
                                      .x_stride = x.cols(),
                                      .y = rows_of(product.y, first),
                                      .rows = x.rows(),
                                      .out = count,
                                      .in = x.cols()},
                                     scratch.data, kernels::cuda::kCublasLtWorkspace, gpu.stream());
    if (!is_done) return false;
  }
  kernels::cuda::scale_rows(rows_of(product.y), halves.scales, product.bias, x.rows(),
                            product.y.cols(), gpu.stream());
  return true;
}

void gemm(const Activation& x,
          const Product& product,
          ConvertedRows& rows,
          CudaContext& gpu,
          Workspace& workspace) {
  if (is_exact(product) || !kernels::cuda::has_gemm_f16())
    return kernels::cuda::gemm(one(rows, product), gpu.stream());
  if (!gemm_cublaslt(x, product, rows, gpu, workspace))
    kernels::cuda::gemm_f16(one(rows, product), rows.halves(), gpu.stream());
}

// One launch per weight type.
void gemv_int8(std::vector<Product> products, ConvertedRows& x, CudaContext& gpu) {
  while (!products.empty()) {
    const DType dtype = products.front().weight->dtype;
    const std::int64_t rows = products.front().y.rows();
    std::vector<kernels::cuda::MatrixResult> group;
    std::erase_if(products, [&](const Product& product) {
      if (product.weight->dtype != dtype || group.size() == kernels::cuda::kMaxGroupedMatrices)
        return false;
      group.push_back({.weight = *product.weight, .bias = product.bias, .y = rows_of(product.y)});
      return true;
    });
    kernels::cuda::gemv_q8_grouped(group, x.int8(), rows, gpu.stream());
  }
}

}  // namespace

Precision precision_kwarg(const BuildContext& context) {
  return context.word_kwarg(ops::precision_kwarg()) == "f32" ? Precision::F32 : Precision::Fast;
}

ActivationFormat input_format(const kernels::cuda::Matrix& weight,
                              Precision precision,
                              std::int64_t rows) {
  const bool is_int8 = precision == Precision::Fast && rows <= kMaxInt8Rows &&
                       kernels::cuda::has_gemv_q8(weight.dtype) && weight.cols % 32 == 0;
  return is_int8 ? ActivationFormat::Int8 : ActivationFormat::F32;
}

Int8Rows allocate_int8(std::int64_t rows, std::int64_t cols, Workspace& workspace) {
  const auto bytes = static_cast<std::int64_t>(kernels::cuda::q8_rows_bytes(rows, cols));
  const kernels::cuda::Q8Rows at =
      kernels::cuda::q8_rows_at(workspace.allocate(DType::U8, {bytes}).data, rows, cols);
  return {.quants = at.quants, .scales = at.scales};
}

void multiply(const Activation& x,
              std::span<const Product> products,
              CudaContext& gpu,
              Workspace& workspace) {
  ConvertedRows rows(x, gpu, workspace);
  std::vector<Product> int8;
  for (const Product& product : products) {
    if (input_format(*product.weight, product.precision, x.rows()) == ActivationFormat::Int8) {
      int8.push_back(product);
    } else if (x.rows() <= kMaxGemvRows) {
      kernels::cuda::gemv(one(rows, product), gpu.stream());
    } else {
      gemm(x, product, rows, gpu, workspace);
    }
  }
  gemv_int8(std::move(int8), rows, gpu);
}

}  // namespace graft::ops::cuda
