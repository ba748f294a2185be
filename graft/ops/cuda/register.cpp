#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "graft/base/check.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/cuda/runtime/cuda_context.h"
#include "graft/ops/cuda/runtime/measure.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/devices/device_library.h"
#include "graft/ops/modules/modules.h"

namespace graft::ops::cuda {
namespace {

// The code of the operators in cuda_operators().
struct Factory {
  std::string_view name;
  std::unique_ptr<Operator> (*make)(const BuildContext& context);
};
constexpr std::array kFactories = {
    Factory{"cuda.embedding", make_embedding_cuda},
    Factory{"cuda.rms_norm", make_rms_norm_cuda},
    Factory{"cuda.linear", make_linear_cuda},
    Factory{"cuda.grouped_linear", make_grouped_linear_cuda},
    Factory{"cuda.hyper_connection", make_hyper_connection_cuda},
    Factory{"cuda.rope", make_rope_cuda},
    Factory{"cuda.kv_cache", make_kv_cache_cuda},
    Factory{"cuda.state_cache", make_state_cache_cuda},
    Factory{"cuda.attention", make_attention},
    Factory{"cuda.mla", make_mla},
    Factory{"cuda.delta_net", make_delta_net},
    Factory{"cuda.indexer", make_indexer},
    Factory{"cuda.compressed_indexer", make_compressed_indexer},
    Factory{"cuda.compressed_attention", make_compressed_attention},
    Factory{"cuda.compressor", make_compressor},
    Factory{"cuda.router", make_router_cuda},
    Factory{"cuda.experts", make_experts_cuda},
    Factory{"cuda.mlp", make_mlp},
    Factory{"cuda.moe", make_moe},
    Factory{"cuda.vision_tower", make_vision_tower_cuda},
    Factory{"cuda.multi_modal_projector", make_projector_cuda},
};

}  // namespace

void register_cuda(Registry& registry) {
  if (num_cuda_devices() == 0) return;
  static CudaMemory memory;
  set_device_memory(DeviceType::Cuda, &memory);
  registry.add_device(
      DeviceType::Cuda, [](Device device) { return std::make_unique<CudaContext>(device); },
      make_primitives());
  GRAFT_CHECK(kFactories.size() == cuda_operators().size(), "a factory has no operator");
  for (OperatorInfo info : cuda_operators()) {
    const auto* factory = std::find_if(kFactories.begin(), kFactories.end(),
                                       [&](const Factory& row) { return row.name == info.name; });
    GRAFT_CHECK(factory != kFactories.end(), "no factory of ", info.name);
    info.accepts = is_cuda_weight;
    info.make = factory->make;
    registry.add(std::move(info));
  }
}

}  // namespace graft::ops::cuda

const graft::ops::DeviceLibrary graft_device_library = {
    .add_operators = graft::ops::cuda::register_cuda, .measure = graft::ops::cuda::measure};
