#include "graft/kernels/cuda/attention/delta_net.h"

#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/views.h"

namespace graft::ops::cuda {
namespace {

const float* floats_of(const Buffer& buffer) {
  return reinterpret_cast<const float*>(buffer.data());
}

class DeltaNetCuda final : public DeltaNetCore {
 public:
  explicit DeltaNetCuda(const BuildContext& context)
      : params_(context.params_as<DeltaNetParams>()),
        module_(context.module),
        device_(context.device),
        state_cache_(*context.child_as<StateCache>("state_cache")) {
    if (params_.key_head_dim > kernels::cuda::kMaxDeltaKeyDim ||
        params_.conv_kernel > kernels::cuda::kMaxConvKernel) {
      fail(module_, ": heads of ", params_.key_head_dim, " key values and a convolution of ",
           params_.conv_kernel, " tokens, GPUs support up to ", kernels::cuda::kMaxDeltaKeyDim,
           " and ", kernels::cuda::kMaxConvKernel);
    }
  }

  void load(WeightProvider& weights) override {
    use_gpu(device_.index);
    const std::int64_t channels = params_.conv_channels();
    const std::vector<float> kernel = weights.get(module_ + ".conv1d.weight").decode();
    std::vector<float> taps(kernel.size());
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t tap = 0; tap < params_.conv_kernel; ++tap) {
        taps[static_cast<std::size_t>(tap * channels + channel)] =
            kernel[static_cast<std::size_t>(channel * params_.conv_kernel + tap)];
      }
    }
    taps_ = upload_floats(taps, device_, weights);
    const auto upload = [&](const char* name, std::int64_t size) {
      return upload_floats(load_vector(weights, module_ + name, size), device_, weights);
    };
    decay_ = upload(".A_log", params_.num_value_heads);
    dt_bias_ = upload(".dt_bias", params_.num_value_heads);
    norm_ = upload(".norm.weight", params_.value_head_dim);
  }
  void unload() override {
    taps_ = {};
    decay_ = {};
    dt_bias_ = {};
    norm_ = {};
  }

  void forward(const DeltaNetInput& in, TensorView out, Pass& pass) override {
    CudaContext& gpu = cuda_context(device_, pass);
    const Workspace::Scope scope(pass.workspace);
    const TensorView filtered = pass.workspace.f32({in.qkv.rows(), in.qkv.cols()});
    kernels::cuda::delta_net({.num_key_heads = params_.num_key_heads,
                              .num_value_heads = params_.num_value_heads,
                              .key_dim = params_.key_head_dim,
                              .value_dim = params_.value_head_dim,
                              .conv_kernel = params_.conv_kernel,
                              .tiled_value_heads = params_.tiled_value_heads,
                              .eps = static_cast<float>(params_.eps)},
                             gpu.delta_sequences(state_cache_.slots()),
                             {.taps = floats_of(taps_),
                              .decay = floats_of(decay_),
                              .dt_bias = floats_of(dt_bias_),
                              .norm = floats_of(norm_)},
                             {.qkv = rows_of(in.qkv),
                              .z = rows_of(in.z),
                              .b = rows_of(in.b),
                              .a = rows_of(in.a),
                              .filtered = rows_of(filtered),
                              .out = rows_of(out)},
                             gpu.stream());
  }

 private:
  DeltaNetParams params_;
  std::string module_;
  Device device_;
  StateCache& state_cache_;
  Buffer taps_;     // [conv_kernel, channels] f32
  Buffer decay_;    // [value heads] f32, -exp(A_log)
  Buffer dt_bias_;  // [value heads] f32
  Buffer norm_;     // [value_head_dim] f32
};

}  // namespace

std::unique_ptr<DeltaNetCore> make_delta_net_core(const BuildContext& context) {
  return std::make_unique<DeltaNetCuda>(context);
}

}  // namespace graft::ops::cuda
