// The factories of the operators that run on the CPU, one per file x_cpu.cpp. Plain and exact: what
// faster operators are compared with. Bit for bit, the result of a row depends on that row and on
// its own sequence alone: not on the batch, the chunks of a prefill or the number of threads.

#pragma once

#include <memory>

#include "graft/ops/registry.h"

namespace graft::ops::cpu {

std::unique_ptr<DeviceState> make_cpu_state(Device device);

std::unique_ptr<Operator> make_embedding_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_rms_norm_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_linear_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_rope_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_kv_cache_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_attention_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_mla_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_router_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_experts_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_mlp_cpu(const BuildContext& context);
std::unique_ptr<Operator> make_moe_cpu(const BuildContext& context);

void register_cpu(Registry& registry);

}  // namespace graft::ops::cpu
