#include "graft/kernels/cuda/moe/experts.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/streamed_experts.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/moe_common.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

// A long prefill is processed in chunks: each token takes top_k rows of every intermediate buffer.
constexpr std::int64_t kTokensPerChunk = 4096;

class ExpertsCuda final : public Experts {
 public:
  explicit ExpertsCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<ExpertsParams>()),
        device_(context.device),
        precision_(precision_kwarg(context)) {}

  void load(WeightProvider& weights) override {
    gate_ = load_all(weights, "gate_proj");
    up_ = load_all(weights, "up_proj");
    down_ = load_all(weights, "down_proj");
  }
  void unload() override {
    gate_ = {};
    up_ = {};
    down_ = {};
  }

  ActivationFormat input_format(std::int64_t rows) const override {
    return cuda::input_format(gate_.matrix(), precision_, rows);
  }

  void forward(const Activation& activation, Routing routing, TensorView y, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const TensorView x = activation.f32;
    const kernels::cuda::Q8Rows int8 = q8_rows_of(activation.int8);
    const kernels::cuda::ExpertsJob job = this->job();
    for (std::int64_t row = 0; row < x.rows(); row += kTokensPerChunk) {
      const std::int64_t count = std::min(kTokensPerChunk, x.rows() - row);
      const Workspace::Scope scope(pass.workspace);
      const TensorView scratch = pass.workspace.allocate(
          DType::U8, {static_cast<std::int64_t>(kernels::cuda::experts_bytes(job, count))});
      kernels::cuda::experts(job,
                             {.rows = count,
                              .x = rows_of(x.slice(row, count)),
                              .x_q8 = activation.has_int8() && count == x.rows() ? &int8 : nullptr,
                              .expert_ids = routing.expert_ids.slice(row, count).as<std::int32_t>(),
                              .weights = routing.weights.slice(row, count).f32(),
                              .y = rows_of(y.slice(row, count))},
                             scratch.data, gpu.stream());
    }
  }

 private:
  DeviceWeight load_all(WeightProvider& weights, std::string_view projection) const {
    const std::vector<Weight> loaded = load_experts(weights, module_, projection, params_);
    DeviceWeight stack(loaded, device_, weights);
    for (const Weight& weight : loaded)
      weights.release(weight);
    return stack;
  }

  kernels::cuda::ExpertsJob job() const {
    const auto stack = [](const DeviceWeight& weight) {
      return kernels::cuda::ExpertStack{.matrix = weight.matrix(),
                                        .matrix_bytes = weight.matrix_bytes()};
    };
    const bool is_fast = precision_ == Precision::Fast;
    const bool is_exact = !is_fast || gate_.matrix().dtype == DType::F32;
    return {
        .num_experts = params_.num_experts,
        .top_k = params_.top_k,
        .hidden = params_.hidden_size,
        .intermediate = params_.intermediate_size,
        .gate = stack(gate_),
        .up = stack(up_),
        .down = stack(down_),
        .use_int8 = is_fast,
        .arithmetic = is_exact ? kernels::cuda::Arithmetic::F32 : kernels::cuda::Arithmetic::F16};
  }

  std::string module_;
  ExpertsParams params_;
  Device device_;
  Precision precision_;
  DeviceWeight gate_;
  DeviceWeight up_;
  DeviceWeight down_;
};

}  // namespace

std::unique_ptr<Operator> make_experts_cuda(const BuildContext& context) {
  const bool is_on_cpu_in_decode = context.decode_op != nullptr && context.decode_device == kCpu;
  if (is_on_cpu_in_decode) return make_streamed_experts(context);
  return std::make_unique<ExpertsCuda>(context);
}

}  // namespace graft::ops::cuda
