#include "graft/ops/cuda/experts/device_epilogue.h"

#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/runtime/runtime.h"
#include "graft/ops/experts/moe_common.h"

namespace graft::ops::cuda {

void DeviceEpilogue::load(WeightProvider& weights,
                          const std::string& module,
                          const ExpertsParams& params,
                          Device device) {
  swiglu_limit_ = params.swiglu_limit;
  limits_silu_ = params.limits_silu;
  if (!params.bias) return;
  use_gpu(device.index);
  const ExpertBiases biases = load_expert_biases(weights, module, params);
  gate_bias_ = upload_floats(biases.gate_proj, device, weights);
  up_bias_ = upload_floats(biases.up_proj, device, weights);
  down_bias_ = upload_floats(biases.down_proj, device, weights);
}

void DeviceEpilogue::unload() {
  gate_bias_ = {};
  up_bias_ = {};
  down_bias_ = {};
}

kernels::cuda::ExpertEpilogue DeviceEpilogue::get() const {
  const auto floats = [](const Buffer& buffer) {
    return reinterpret_cast<const float*>(buffer.data());
  };
  return {.gate_bias = floats(gate_bias_),
          .up_bias = floats(up_bias_),
          .down_bias = floats(down_bias_),
          .swiglu_limit = swiglu_limit_,
          .limits_silu = limits_silu_};
}

}  // namespace graft::ops::cuda
