#include "graft/ops/cuda/products.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/kernels/cuda/formats/panels.h"
#include "graft/kernels/cuda/linear/gemm_cublaslt.h"
#include "graft/kernels/cuda/linear/panels/panel_gemm.h"
#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cuda/views.h"
#include "graft/packing/panel_layout.h"

namespace graft::ops::cuda {
namespace {

// Max rows for which the GEMV kernels read the weights once.
constexpr std::int64_t kMaxGemvRows = 8;
// With few outputs (routers) the tiles of a GEMM would leave most of the GPU idle.
constexpr std::int64_t kMaxNarrowOut = 1024;
constexpr std::int64_t kMaxNarrowRows = 256;
// Bytes of weights dequantized to f16 at a time for cuBLASLt.
constexpr std::int64_t kDecodedBytes = std::int64_t{256} << 20U;

// x in the formats of the kernels, converted on first use.
class ConvertedRows {
 public:
  ConvertedRows(const Activation& x, CudaContext& gpu, Workspace& workspace)
      : x_(x), gpu_(gpu), workspace_(workspace), scope_(workspace) {}

  kernels::cuda::ConstRows f32() const {
    GRAFT_CHECK(x_.has_f32(), "the kernel requires f32 rows, the activation has none");
    return rows_of(x_.f32);
  }

  kernels::cuda::Q8Rows int8() {
    if (!x_.has_int8()) {
      x_.int8 = allocate_int8(x_.rows(), x_.cols(), workspace_);
      kernels::cuda::quantize_rows(f32(), q8_rows_of(x_.int8), x_.rows(), x_.cols(), gpu_.stream());
    }
    return q8_rows_of(x_.int8);
  }

  kernels::cuda::PanelRows panel_rows() {
    if (!x_.has_f16()) {
      x_.f16 = allocate_f16(x_.rows(), x_.cols(), workspace_);
      kernels::cuda::to_panel_rows(f32(), panel_rows_of(x_.f16, x_.rows()), x_.cols(),
                                   gpu_.stream());
    }
    return panel_rows_of(x_.f16, x_.rows());
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

std::int64_t max_gemv_rows(const Product& product) {
  return is_exact(product) && product.weight->rows <= kMaxNarrowOut ? kMaxNarrowRows : kMaxGemvRows;
}

// Dequantizes rows [first, first + count) to F16. Those of panels begin with a panel.
void decode_rows(const kernels::cuda::Matrix& weight,
                 std::int64_t first,
                 std::int64_t count,
                 kernels::cuda::Half* out,
                 CudaContext& gpu) {
  if (weight.layout == kernels::cuda::Layout::Rows)
    return kernels::cuda::decode_rows_f16(weight, first, count, out, gpu.stream());
  const auto* panels = static_cast<const std::byte*>(weight.data) +
                       packing::packed_bytes(weight.dtype, first, weight.cols);
  kernels::cuda::unpack_panels({.dtype = weight.dtype,
                                .panels = panels,
                                .num_matrices = 1,
                                .rows = count,
                                .cols = weight.cols},
                               out, gpu.stream());
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
             : std::clamp(
                   kDecodedBytes / (2 * weight.cols) / packing::kPanelRows * packing::kPanelRows,
                   packing::kPanelRows, std::max(packing::kPanelRows, weight.rows));
  const TensorView decoded = workspace.allocate(DType::F16, {is_f16 ? 0 : chunk_rows, weight.cols});
  const TensorView scratch =
      workspace.allocate(DType::U8, {static_cast<std::int64_t>(kernels::cuda::kCublasLtWorkspace)});
  for (std::int64_t first = 0; first < weight.rows; first += chunk_rows) {
    const std::int64_t count = std::min(chunk_rows, weight.rows - first);
    if (!is_f16) {
      decode_rows(weight, first, count, decoded.as<kernels::cuda::Half>(), gpu);
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

// Calls multiply(group) with the products of one weight type, at most max_size at a time.
template <class Multiply>
void for_each_group(std::vector<Product> products, std::size_t max_size, const Multiply& multiply) {
  while (!products.empty()) {
    const DType dtype = products.front().weight->dtype;
    std::vector<Product> group;
    std::erase_if(products, [&](const Product& product) {
      if (product.weight->dtype != dtype || group.size() == max_size) return false;
      group.push_back(product);
      return true;
    });
    multiply(group);
  }
}

void gemv_int8(std::vector<Product> products, ConvertedRows& x, CudaContext& gpu) {
  for_each_group(
      std::move(products), kernels::cuda::kMaxGroupedMatrices, [&](std::span<const Product> group) {
        std::vector<kernels::cuda::MatrixResult> results;
        for (const Product& product : group) {
          results.push_back(
              {.weight = *product.weight, .bias = product.bias, .y = rows_of(product.y)});
        }
        kernels::cuda::gemv_q8_grouped(results, x.int8(), group.front().y.rows(), gpu.stream());
      });
}

void panel_gemm(std::vector<Product> products,
                ConvertedRows& x,
                CudaContext& gpu,
                Workspace& workspace) {
  for_each_group(
      std::move(products), kernels::cuda::kMaxPanelMatrices, [&](std::span<const Product> group) {
        std::vector<kernels::cuda::PanelMatrix> matrices;
        for (const Product& product : group) {
          matrices.push_back({.panels = static_cast<const std::byte*>(product.weight->data),
                              .out = product.weight->rows,
                              .bias = product.bias,
                              .y = rows_of(product.y)});
        }
        const kernels::cuda::Matrix& weight = *group.front().weight;
        const kernels::cuda::PanelRows rows = x.panel_rows();
        const Workspace::Scope scope(workspace);
        const auto bytes = static_cast<std::int64_t>(
            kernels::cuda::panel_gemm_bytes(weight.dtype, weight.cols, matrices, rows));
        kernels::cuda::panel_gemm(weight.dtype, weight.cols, matrices, rows,
                                  workspace.allocate(DType::U8, {bytes}).data, gpu.stream());
      });
}

// Products of panels with many rows that cuBLASLt cannot compute go to `rest`.
void gemm_panels(const Activation& x,
                 const Product& product,
                 ConvertedRows& rows,
                 CudaContext& gpu,
                 Workspace& workspace,
                 std::vector<Product>& rest) {
  if (x.rows() <= kMaxPanelRows || !gemm_cublaslt(x, product, rows, gpu, workspace))
    rest.push_back(product);
}

}  // namespace

Precision precision_kwarg(const BuildContext& context) {
  return context.word_kwarg(ops::precision_kwarg()) == "f32" ? Precision::F32 : Precision::Fast;
}

ActivationFormat input_format(const kernels::cuda::Matrix& weight,
                              Precision precision,
                              std::int64_t rows) {
  if (weight.layout == kernels::cuda::Layout::Panels)
    return rows <= kMaxPanelRows ? ActivationFormat::F16 : ActivationFormat::F32;
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

kernels::cuda::Layout weight_layout(const Weight& weight, Precision precision) {
  const bool is_panels = precision == Precision::Fast && weight.scale == nullptr &&
                         kernels::cuda::has_panels(weight.dtype) && kernels::cuda::has_panel_gemm();
  return is_panels ? kernels::cuda::Layout::Panels : kernels::cuda::Layout::Rows;
}

F16Rows allocate_f16(std::int64_t rows, std::int64_t cols, Workspace& workspace) {
  const auto bytes = static_cast<std::int64_t>(kernels::cuda::panel_rows_bytes(rows, cols));
  const kernels::cuda::PanelRows at =
      kernels::cuda::panel_rows_at(workspace.allocate(DType::U8, {bytes}).data, rows, cols);
  return {.values = at.values, .scales = at.scales};
}

void multiply(const Activation& x,
              std::span<const Product> products,
              CudaContext& gpu,
              Workspace& workspace) {
  ConvertedRows rows(x, gpu, workspace);
  std::vector<Product> int8;
  std::vector<Product> panels;
  for (const Product& product : products) {
    if (product.weight->layout == kernels::cuda::Layout::Panels) {
      gemm_panels(x, product, rows, gpu, workspace, panels);
    } else if (input_format(*product.weight, product.precision, x.rows()) ==
               ActivationFormat::Int8) {
      int8.push_back(product);
    } else if (x.rows() <= max_gemv_rows(product)) {
      kernels::cuda::gemv(one(rows, product), gpu.stream());
    } else {
      gemm(x, product, rows, gpu, workspace);
    }
  }
  gemv_int8(std::move(int8), rows, gpu);
  panel_gemm(std::move(panels), rows, gpu, workspace);
}

}  // namespace graft::ops::cuda
