#include "graft/ops/cuda/cuda_context.h"
#include "graft/ops/cuda/device_weight.h"
#include "graft/ops/cuda/measure.h"
#include "graft/ops/cuda/operators.h"
#include "graft/ops/device_library.h"
#include "graft/ops/modules/modules.h"

namespace graft::ops::cuda {
namespace {

template <class P>
bool has(const Params& params) {
  return std::holds_alternative<P>(params);
}

class Adder {
 public:
  explicit Adder(Registry& registry) : registry_(registry) {}
  void operator()(OperatorInfo info) const {
    info.device = DeviceType::Cuda;
    info.accepts = is_cuda_weight;
    info.is_native = true;
    registry_.add(std::move(info));
  }

 private:
  Registry& registry_;
};

void add_parts(const Adder& add) {
  add({.name = "cuda.embedding",
       .role = Role::Embedding,
       .summary = "rows of the embedding table, dequantized from any type",
       .make = make_embedding_cuda});
  add({.name = "cuda.rms_norm",
       .role = Role::Norm,
       .summary = "root mean square norm",
       .make = make_rms_norm_cuda});
  add({.name = "cuda.linear",
       .role = Role::Linear,
       .summary = "matrix product, weights dequantized in the kernel",
       .kwargs = {"precision"},
       .make = make_linear_cuda});
  add({.name = "cuda.rope",
       .role = Role::Rope,
       .summary = "rotary embedding",
       .make = make_rope_cuda});
  add({.name = "cuda.kv_cache",
       .role = Role::KvCache,
       .summary = "paged KV cache in f32, f16 or bf16",
       .kwargs = {"dtype", "block_tokens"},
       .make = make_kv_cache_cuda});
}

void add_blocks(const Adder& add) {
  add({.name = "cuda.attention",
       .role = Role::Attention,
       .summary = "grouped-query attention",
       .kwargs = {"precision"},
       .fits = has<AttentionParams>,
       .make = make_attention});
  add({.name = "cuda.mla",
       .role = Role::Attention,
       .summary = "multi-head latent attention, absorbed",
       .kwargs = {"precision"},
       .fits = has<MlaParams>,
       .make = make_mla});
  add({.name = "cuda.router",
       .role = Role::Router,
       .summary = "top-k expert selection with routing weights",
       .make = make_router_cuda});
  add({.name = "cuda.experts",
       .role = Role::Experts,
       .summary = "routed experts, tokens grouped by expert; streamed from host memory in prefill "
                  "when decode runs on the CPU",
       .kwargs = {"precision", "stream_from"},
       .make = make_experts_cuda});
  add({.name = "cuda.mlp",
       .role = Role::Mlp,
       .summary = "silu(gate) * up, then down",
       .make = make_mlp});
  add({.name = "cuda.moe",
       .role = Role::Moe,
       .summary = "router, experts and shared experts; overlaps with experts on another device",
       .make = make_moe});
}

}  // namespace

void register_cuda(Registry& registry) {
  if (num_cuda_devices() == 0) return;
  static CudaMemory memory;
  set_device_memory(DeviceType::Cuda, &memory);
  registry.add_device(
      DeviceType::Cuda, [](Device device) { return std::make_unique<CudaContext>(device); },
      make_primitives());
  const Adder add(registry);
  add_parts(add);
  add_blocks(add);
}

}  // namespace graft::ops::cuda

const graft::ops::DeviceLibrary graft_device_library = {
    .add_operators = graft::ops::cuda::register_cuda, .measure = graft::ops::cuda::measure};
