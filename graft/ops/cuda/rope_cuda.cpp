#include "graft/kernels/cuda/rope.h"

#include <string>

#include "graft/ops/cuda/cuda_operators.h"
#include "graft/ops/cuda/cuda_state.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops {
namespace {

class RopeCuda final : public Rope {
 public:
  explicit RopeCuda(const BuildContext& context)
      : module_(context.module),
        params_(context.params_as<RopeParams>()),
        device_(context.device) {}

  void load(WeightProvider& /*weights*/) override {
    inv_freq_ = upload_floats(params_.inv_freq, device_);
  }
  void unload() override { inv_freq_ = {}; }

  void forward(TensorView x, const Heads& heads, Pass& pass) override {
    CudaState& state = cuda_state(device_, pass);
    const CudaProfileScope profile(state, pass, module_);
    cuda::rotate(rows_of(x, heads.offset),
                 {.rotary_dim = params_.rotary_dim,
                  .inv_freq = reinterpret_cast<const float*>(inv_freq_.data()),
                  .magnitude = params_.magnitude,
                  .interleaved = params_.interleaved,
                  .dynamic = params_.dynamic,
                  .theta = params_.theta,
                  .factor = params_.factor,
                  .max_position_embeddings = params_.max_position_embeddings},
                 state.positions(), x.rows(),
                 {.num_heads = heads.num_heads, .head_dim = heads.head_dim}, state.stream());
  }

 private:
  std::string module_;
  RopeParams params_;
  Device device_;
  Buffer inv_freq_;
};

}  // namespace

std::unique_ptr<Operator> make_rope_cuda(const BuildContext& context) {
  return std::make_unique<RopeCuda>(context);
}

}  // namespace graft::ops
