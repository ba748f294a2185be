#include <functional>
#include <utility>
#include <variant>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/operators.h"
#include "graft/ops/devices/device_context.h"
#include "graft/ops/modules/modules.h"

namespace graft::ops::cpu {
namespace {

template <class P>
bool has(const Params& params) {
  return std::holds_alternative<P>(params);
}

bool has_one_group(const Params& params) {
  const auto* linear = std::get_if<LinearParams>(&params);
  return linear == nullptr || linear->groups == 1;
}

bool has_groups(const Params& params) {
  return !has_one_group(params);
}

bool indexes_tokens(const Params& params) {
  const auto* indexer = std::get_if<IndexerParams>(&params);
  return indexer == nullptr || indexer->compress_rate == 1;
}

bool indexes_entries(const Params& params) {
  return !indexes_tokens(params);
}

using AddOperator = std::function<void(OperatorInfo info)>;

void add_leaf_operators(const AddOperator& add) {
  add({.name = "cpu.embedding",
       .role = Role::Embedding,
       .summary = "rows of the embedding table, dequantized from any type",
       .make = make_embedding_cpu});
  add({.name = "cpu.rms_norm",
       .role = Role::Norm,
       .summary = "root mean square norm",
       .make = make_rms_norm_cpu});
  add({.name = "cpu.linear",
       .role = Role::Linear,
       .summary = "matrix product, int8 where weights of the type can be packed",
       .kwargs = {repack_kwarg()},
       .fits = has_one_group,
       .make = make_linear_cpu});
  add({.name = "cpu.grouped_linear",
       .role = Role::Linear,
       .summary = "block-diagonal matrix product",
       .kwargs = {repack_kwarg()},
       .fits = has_groups,
       .make = make_grouped_linear_cpu});
  add({.name = "cpu.hyper_connection",
       .role = Role::HyperConnection,
       .summary = "reads and writes the streams of hyper-connections",
       .make = make_hyper_connection_cpu});
  add({.name = "cpu.rope",
       .role = Role::Rope,
       .summary = "rotary embedding",
       .make = make_rope_cpu});
  add({.name = "cpu.kv_cache",
       .role = Role::KvCache,
       .summary = "paged KV cache in f32, f16, bf16, fp8, q8_0 or q4_0",
       .kwargs = {cache_type_kwarg(), block_tokens_kwarg()},
       .make = make_kv_cache_cpu});
  add({.name = "cpu.state_cache",
       .role = Role::StateCache,
       .summary = "recurrent states in f32, a slot per sequence",
       .make = make_state_cache_cpu});
}

void add_vision_operators(const AddOperator& add) {
  add({.name = "cpu.vision_tower",
       .role = Role::VisionTower,
       .summary = "CLIP vision tower",
       .kwargs = {repack_kwarg()},
       .make = make_vision_tower_cpu});
  add({.name = "cpu.multi_modal_projector",
       .role = Role::Projector,
       .summary = "linear, activation, linear",
       .kwargs = {repack_kwarg()},
       .make = make_projector_cpu});
}

void add_block_operators(const AddOperator& add) {
  add({.name = "cpu.attention",
       .role = Role::Attention,
       .summary = "grouped-query attention",
       .fits = has<AttentionParams>,
       .make = make_attention});
  add({.name = "cpu.mla",
       .role = Role::Attention,
       .summary = "multi-head latent attention, absorbed or expanded",
       .kwargs = {absorb_kwarg(), absorb_for_prefill_kwarg()},
       .fits = has<MlaParams>,
       .absorbed_children = {"kv_b_proj"},
       .make = make_mla});
  add({.name = "cpu.delta_net",
       .role = Role::Attention,
       .summary = "gated delta rule over a recurrent state",
       .fits = has<DeltaNetParams>,
       .make = make_delta_net});
  add({.name = "cpu.indexer",
       .role = Role::Indexer,
       .summary = "top-k positions of sparse attention, scored over a cache of index keys",
       .fits = indexes_tokens,
       .make = make_indexer});
  add({.name = "cpu.compressed_indexer",
       .role = Role::Indexer,
       .summary = "top-k entries of compressed sparse attention",
       .fits = indexes_entries,
       .make = make_compressed_indexer});
  add({.name = "cpu.compressed_attention",
       .role = Role::Attention,
       .summary = "attention over a window and compressed entries",
       .fits = has<CompressedAttentionParams>,
       .make = make_compressed_attention});
  add({.name = "cpu.compressor",
       .role = Role::Compressor,
       .summary = "entries of several tokens for compressed attention",
       .make = make_compressor});
  add({.name = "cpu.router",
       .role = Role::Router,
       .summary = "top-k expert selection with routing weights",
       .make = make_router_cpu});
  add({.name = "cpu.experts",
       .role = Role::Experts,
       .summary = "routed experts, tokens grouped by expert",
       .kwargs = {repack_kwarg(), defer_kwarg()},
       .make = make_experts_cpu});
  add({.name = "cpu.mlp",
       .role = Role::Mlp,
       .summary = "silu(gate) * up, then down",
       .make = make_mlp});
  add({.name = "cpu.moe",
       .role = Role::Moe,
       .summary = "router, experts and shared experts",
       .make = make_moe});
}

}  // namespace

void register_cpu(Registry& registry) {
  registry.add_device(DeviceType::Cpu, make_cpu_context, make_primitives());
  const auto add = [&](OperatorInfo info) {
    info.device = DeviceType::Cpu;
    info.is_native = true;
    registry.add(std::move(info));
  };
  add_leaf_operators(add);
  add_block_operators(add);
  add_vision_operators(add);
}

}  // namespace graft::ops::cpu
