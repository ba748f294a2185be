#include "graft/kernels/cuda/moe/router.h"

#include <string>

#include "graft/base/check.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/products.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/experts/moe_common.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

kernels::cuda::RouterShape shape_of(const RouterParams& params) {
  return {.num_experts = params.num_experts,
          .top_k = params.top_k,
          .scoring = params.scoring,
          .method = params.method,
          .num_groups = params.num_groups,
          .top_k_groups = params.top_k_groups,
          .normalize = params.normalize,
          .scaling_factor = params.scaling_factor};
}

class RouterCuda final : public Router {
 public:
  explicit RouterCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<RouterParams>()),
        device_(context.device) {
    check_router(module_, params_);
  }

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(params_.num_experts, params_.hidden_size);
    weight_ = DeviceWeight(weight, device_, weights);
    if (params_.hash_vocab_size > 0)
      table_ = upload_indices(load_hash_table(weights, module_, params_), device_, weights);
    logit_bias_ = {};
    if (params_.bias) {
      logit_bias_ = upload_floats(load_vector(weights, module_ + ".bias", params_.num_experts),
                                  device_, weights);
    }
    const std::string bias_name = module_ + ".e_score_correction_bias";
    bias_ = {};
    if (!weights.contains(bias_name)) return;
    const Weight bias = weights.get(bias_name);
    bias.expect_shape(1, params_.num_experts);
    bias_ = upload_floats(bias.decode(), device_, weights);
  }
  void unload() override {
    weight_ = {};
    logit_bias_ = {};
    bias_ = {};
    table_ = {};
  }

  std::int64_t top_k() const override { return params_.top_k; }

  // Always f32: quantized scores could select other experts.
  void forward(TensorView x, Routing out, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    const Workspace::Scope scope(pass.workspace);
    const TensorView scores = pass.workspace.f32({x.rows(), params_.num_experts});
    const Product product = {.weight = &weight_.matrix(),
                             .bias = reinterpret_cast<const float*>(logit_bias_.data()),
                             .y = scores,
                             .precision = Precision::F32};
    multiply(x, {&product, 1}, gpu, pass.workspace);
    kernels::cuda::route(shape_of(params_), scores.f32(), choice(x.rows(), gpu, pass), x.rows(),
                         out.expert_ids.as<std::int32_t>(), out.weights.f32(), gpu.stream());
  }

 private:
  // The rows of a table are looked up by the tokens of the batch, which are already on the GPU.
  kernels::cuda::RouterChoice choice(std::int64_t rows, CudaContext& gpu, Pass& pass) const {
    if (params_.hash_vocab_size == 0) return {.bias = reinterpret_cast<const float*>(bias_.data())};
    GRAFT_CHECK(rows == pass.batch.num_tokens(), module_, ": ", rows, " rows of ",
                pass.batch.num_tokens(), " tokens");
    for (const std::int32_t id : pass.batch.token_ids)
      GRAFT_CHECK(id < params_.hash_vocab_size, module_, ": token ", id);
    return {.table = reinterpret_cast<const std::int32_t*>(table_.data()),
            .token_ids = gpu.token_ids()};
  }

  std::string module_;
  RouterParams params_;
  Device device_;
  DeviceWeight weight_;
  Buffer logit_bias_;  // [experts] f32; empty: none
  Buffer bias_;        // [experts] f32, for selection only; empty: none
  Buffer table_;       // [vocab, top_k] i32, the experts of every token; empty: none
};

}  // namespace

std::unique_ptr<Operator> make_router_cuda(const BuildContext& context) {
  return std::make_unique<RouterCuda>(context);
}

}  // namespace graft::ops::cuda
