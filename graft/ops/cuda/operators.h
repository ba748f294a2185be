// The factories of libgraft_cuda.so, one per file; register.cpp adds them to a registry.

#pragma once

#include <memory>

#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"

namespace graft::ops::cuda {

std::shared_ptr<Primitives> make_primitives();
std::unique_ptr<LoraLayer> make_lora_layer(Device device, const LoraSize& size);
std::unique_ptr<AttentionCore> make_attention_core(const BuildContext& context);
std::unique_ptr<AttentionCore> make_latent_attention_core(const BuildContext& context);
std::unique_ptr<DeltaNetCore> make_delta_net_core(const BuildContext& context);
std::unique_ptr<IndexerCore> make_indexer_core(const BuildContext& context);
std::unique_ptr<AttentionCore> make_compressed_attention_core(const BuildContext& context);
std::unique_ptr<CompressorCore> make_compressor_core(const CompressorParams& params,
                                                     const BuildContext& context);
std::unique_ptr<Operator> make_embedding_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_linear_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_grouped_linear_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_hyper_connection_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_rope_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_kv_cache_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_state_cache_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_router_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_experts_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_vision_tower_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_projector_cuda(const BuildContext& context);

// Does not throw; without a GPU it adds nothing.
void register_cuda(Registry& registry);

}  // namespace graft::ops::cuda
