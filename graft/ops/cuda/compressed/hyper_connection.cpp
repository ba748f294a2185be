#include "graft/kernels/cuda/compressed/hyper_connection.h"

#include <string>

#include "graft/base/check.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

class HyperConnectionCuda final : public HyperConnection {
 public:
  explicit HyperConnectionCuda(const BuildContext& context)
      : module_(context.module), device_(context.device) {
    const auto& params = context.params_as<HyperConnectionParams>();
    GRAFT_CHECK(params.mult > 0 && params.mult <= kernels::cuda::kMaxHyperStreams, module_, ": ",
                params.mult, " streams");
    shape_ = {.hidden = params.hidden_size,
              .mult = params.mult,
              .sinkhorn_iters = params.sinkhorn_iters,
              .eps = static_cast<float>(params.eps),
              .norm_eps = static_cast<float>(params.norm_eps),
              .is_head = params.is_head};
  }

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    const std::string prefix = module_ + (shape_.is_head ? ".hc_" : ".");
    const Weight fn = weights.get(prefix + "fn");
    fn.expect_shape(shape_.num_logits(), shape_.mult * shape_.hidden);
    fn_ = upload_floats(fn.decode(), device_, weights);
    base_ =
        upload_floats(load_vector(weights, prefix + "base", shape_.num_logits()), device_, weights);
    scale_ = upload_floats(load_vector(weights, prefix + "scale", shape_.is_head ? 1 : 3), device_,
                           weights);
    weights.release(fn);
  }
  void unload() override {
    fn_ = {};
    base_ = {};
    scale_ = {};
  }

  std::int64_t mult() const override { return shape_.mult; }

  void replicate(TensorView x, TensorView streams, Pass& pass) override {
    kernels::cuda::replicate_streams(shape_, rows_of(x), rows_of(streams), x.rows(),
                                     cuda_context(device_, pass).stream());
  }

  void collapse(TensorView streams, TensorView y, TensorView mix, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const auto bytes =
        static_cast<std::int64_t>(kernels::cuda::collapse_streams_bytes(shape_, streams.rows()));
    const TensorView scratch = pass.workspace.allocate(DType::U8, {bytes});
    const auto floats = [](const Buffer& buffer) {
      return reinterpret_cast<const float*>(buffer.data());
    };
    kernels::cuda::collapse_streams(
        shape_, {.fn = floats(fn_), .base = floats(base_), .scale = floats(scale_)},
        rows_of(streams), rows_of(y), shape_.is_head ? kernels::cuda::Rows{} : rows_of(mix),
        streams.rows(), scratch.data, gpu.stream());
  }

  void add(TensorView y, TensorView mix, TensorView streams, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    kernels::cuda::add_to_streams(shape_, rows_of(y), rows_of(mix), rows_of(streams), y.rows(),
                                  gpu.stream());
  }

 private:
  std::string module_;
  Device device_;
  kernels::cuda::HyperShape shape_;
  Buffer fn_;     // [num_logits, mult * hidden] f32
  Buffer base_;   // [num_logits] f32
  Buffer scale_;  // of the three parts of the logits; one for the head
};

}  // namespace

std::unique_ptr<Operator> make_hyper_connection_cuda(const BuildContext& context) {
  return std::make_unique<HyperConnectionCuda>(context);
}

}  // namespace graft::ops::cuda
