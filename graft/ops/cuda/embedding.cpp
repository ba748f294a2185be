#include <algorithm>
#include <string>

#include "graft/base/check.h"
#include "graft/kernels/cuda/elementwise.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {
namespace {

class EmbeddingCuda final : public Embedding {
 public:
  explicit EmbeddingCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<EmbeddingParams>()),
        device_(context.device) {}

  void load(WeightProvider& weights) override {
    const Weight weight = weights.get(module_ + ".weight");
    weight.expect_shape(params_.vocab_size, params_.hidden_size);
    table_ = DeviceWeight(weight, device_, weights);
  }
  void unload() override { table_ = {}; }

  // The ids are those of the batch, which are already on the GPU. Negative ids are resolved there.
  void forward(std::span<const std::int32_t> token_ids, TensorView y, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const ProfileScope profile(pass, device_, module_);
    GRAFT_CHECK(token_ids.data() == pass.batch.token_ids.data(), module_, ": ids of another batch");
    for (const std::int32_t id : token_ids) {
      GRAFT_CHECK(id < params_.vocab_size, "token ", id, " of a vocabulary of ",
                  params_.vocab_size);
    }
    kernels::cuda::look_up_rows(table_.matrix(), gpu.token_ids(),
                                static_cast<std::int64_t>(token_ids.size()), y.f32(), gpu.stream());
    if (params_.scale != 1.0F)
      kernels::cuda::scale(rows_of(y), params_.scale, y.rows(), y.cols(), gpu.stream());
  }

 private:
  std::string module_;
  EmbeddingParams params_;
  Device device_;
  DeviceWeight table_;
};

}  // namespace

std::unique_ptr<Operator> make_embedding_cuda(const BuildContext& context) {
  return std::make_unique<EmbeddingCuda>(context);
}

}  // namespace graft::ops::cuda
