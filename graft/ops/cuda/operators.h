// The operators of libgraft_cuda.so; register_cuda.cpp puts them into a registry.

#pragma once

#include <memory>

#include "graft/ops/operator.h"
#include "graft/ops/registry.h"

namespace graft::ops::cuda {

std::unique_ptr<Operator> make_embedding_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_rms_norm_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_linear_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_rope_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_kv_cache_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_attention_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_mla_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_router_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_experts_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_mlp_cuda(const BuildContext& context);
std::unique_ptr<Operator> make_moe_cuda(const BuildContext& context);

// Throws nothing; without a GPU it adds nothing.
void register_cuda(Registry& registry);

}  // namespace graft::ops::cuda
