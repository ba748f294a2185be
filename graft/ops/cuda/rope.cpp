#include "graft/ops/cuda/rope.h"

#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"
#include "graft/ops/profiler.h"

namespace graft::ops::cuda {

RopeCuda::RopeCuda(const BuildContext& context)
    : module_(context.module), params_(context.params_as<RopeParams>()), device_(context.device) {}

void RopeCuda::load(WeightProvider& weights) {
  inv_freq_ = upload_floats(params_.inv_freq, device_, weights);
  if (!params_.long_inv_freq.empty())
    long_inv_freq_ = upload_floats(params_.long_inv_freq, device_, weights);
}

void RopeCuda::forward(TensorView x, const Heads& heads, Pass& pass) {
  CudaContext& gpu = cuda_context(device_, pass);
  const ProfileScope profile(pass, device_, module_);
  kernels::cuda::rotate(rows_of(x, heads.offset), rotation(), gpu.positions(), x.rows(),
                        {.num_heads = heads.num_heads, .head_dim = heads.head_dim}, gpu.stream());
}

kernels::cuda::RopeConfig RopeCuda::rotation() const {
  return {.rotary_dim = params_.rotary_dim,
          .inv_freq = reinterpret_cast<const float*>(inv_freq_.data()),
          .magnitude = params_.magnitude,
          .interleaved = params_.interleaved,
          .dynamic = params_.dynamic,
          .theta = params_.theta,
          .factor = params_.factor,
          .max_position_embeddings = params_.max_position_embeddings,
          .long_inv_freq = params_.long_inv_freq.empty()
                               ? nullptr
                               : reinterpret_cast<const float*>(long_inv_freq_.data()),
          .long_flag = kLongRopeFlag};
}

std::unique_ptr<Operator> make_rope_cuda(const BuildContext& context) {
  return std::make_unique<RopeCuda>(context);
}

}  // namespace graft::ops::cuda
