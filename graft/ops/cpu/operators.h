// Factories of the CPU operators, one per file. They are the reference for other devices.
// Batch-invariant: the bits of a row depend on that row and its sequence alone, not on the batch
// composition, the prefill chunks or the number of threads.

#pragma once

#include <memory>

#include "graft/ops/primitives.h"
#include "graft/ops/registry.h"
#include "graft/ops/vision/vision_modules.h"

namespace graft::ops::cpu {

std::unique_ptr<DeviceContext> make_cpu_context(Device device);
std::shared_ptr<Primitives> make_primitives();
std::unique_ptr<LoraLayer> make_lora_layer(const LoraSize& size);
std::unique_ptr<AttentionCore> make_attention_core(const BuildContext& context);
std::unique_ptr<AttentionCore> make_latent_attention_core(const BuildContext& context);
std::unique_ptr<DeltaNetCore> make_delta_net_core(const BuildContext& context);
std::unique_ptr<IndexerCore> make_indexer_core(const BuildContext& context);
std::unique_ptr<AttentionCore> make_compressed_attention_core(const BuildContext& context);
std::unique_ptr<CompressorCore> make_compressor_core(const CompressorParams& params,
                                                     const BuildContext& context);

std::unique_ptr<Operator> make_embedding_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_rms_norm_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_grouped_linear_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_hyper_connection_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_rope_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_kv_cache_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_state_cache_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_router_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_experts_cpu(const BuildContext& context);
std::unique_ptr<VisionPrimitives> make_vision_primitives();
std::unique_ptr<Operator> make_vision_tower_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_projector_cpu(const BuildContext& context);

void register_cpu(Registry& registry);

}  // namespace graft::ops::cpu
