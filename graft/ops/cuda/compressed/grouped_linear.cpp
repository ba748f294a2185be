#include <string>

#include "graft/kernels/cuda/linear/linear.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// Max rows for which the GEMV kernel reads the weights once.
constexpr std::int64_t kMaxGroupedGemvRows = 8;

// A block-diagonal matrix product: the rows of one weight in groups, each with its own part of x.
// All groups are one launch.
class GroupedLinearCuda final : public Linear {
 public:
  explicit GroupedLinearCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<LinearParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)) {}

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(params_.out_features, params_.in_features);
    weight_ = DeviceWeight(weight, device_, weights);
    weights.release(weight);
  }
  void unload() override { weight_ = {}; }

  void forward(const Activation& x, TensorView y, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const kernels::cuda::LinearBatch products = products_of(x.f32, y);
    if (x.rows() <= kMaxGroupedGemvRows) return kernels::cuda::gemv(products, gpu.stream());
    const bool is_exact = precision_ == Precision::F32 || weight_.matrix().dtype == DType::F32;
    if (is_exact || !kernels::cuda::has_gemm_f16())
      return kernels::cuda::gemm(products, gpu.stream());
    const Workspace::Scope scope(pass.workspace);
    const std::int64_t rows = x.rows() * params_.groups;  // the parts of x
    const auto bytes =
        static_cast<std::int64_t>(kernels::cuda::half_rows_bytes(rows, params_.in_features));
    kernels::cuda::F16Rows halves = kernels::cuda::half_rows_at(
        pass.workspace.allocate(DType::U8, {bytes}).data, rows, params_.in_features);
    kernels::cuda::to_half_rows({.data = x.f32.f32(), .stride = params_.in_features}, halves, rows,
                                params_.in_features, gpu.stream());
    halves.row_stride = params_.groups;
    kernels::cuda::gemm_f16(products, halves, gpu.stream());
  }

 private:
  kernels::cuda::LinearBatch products_of(TensorView x, TensorView y) const {
    const std::int64_t out = params_.out_features / params_.groups;
    const kernels::cuda::Matrix& weight = weight_.matrix();
    return {.stack = weight,
            .out = out,
            .matrix_bytes = static_cast<std::size_t>(out) * weight.row_bytes(),
            .batch = params_.groups,
            .rows = x.rows(),
            .x = rows_of(x),
            .x_batch_stride = params_.in_features,
            .y = rows_of(y),
            .y_batch_stride = out};
  }

  std::string module_;
  LinearParams params_;
  Device device_;
  Precision precision_;
  DeviceWeight weight_;
};

}  // namespace

std::unique_ptr<Operator> make_grouped_linear_cuda(const BuildContext& context) {
  return std::make_unique<GroupedLinearCuda>(context);
}

}  // namespace graft::ops::cuda
