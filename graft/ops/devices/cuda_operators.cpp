#include "graft/ops/devices/cuda_operators.h"

#include <utility>
#include <variant>
#include <vector>

#include "graft/ops/builtin_kwargs.h"

namespace graft::ops {
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

std::vector<OperatorInfo> leaf_operators() {
  return {{.name = "cuda.embedding",
           .role = Role::Embedding,
           .summary = "rows of the embedding table, dequantized from any type"},
          {.name = "cuda.rms_norm", .role = Role::Norm, .summary = "root mean square norm"},
          {.name = "cuda.linear",
           .role = Role::Linear,
           .summary = "matrix product, weights dequantized in the kernel",
           .kwargs = {precision_kwarg()},
           .fits = has_one_group},
          {.name = "cuda.grouped_linear",
           .role = Role::Linear,
           .summary = "block-diagonal matrix product",
           .kwargs = {precision_kwarg()},
           .fits = has_groups},
          {.name = "cuda.hyper_connection",
           .role = Role::HyperConnection,
           .summary = "reads and writes the streams of hyper-connections"},
          {.name = "cuda.rope", .role = Role::Rope, .summary = "rotary embedding"},
          {.name = "cuda.kv_cache",
           .role = Role::KvCache,
           .summary = "paged KV cache in f32, f16, bf16, fp8, q8_0 or q4_0",
           .kwargs = {cache_type_kwarg(), block_tokens_kwarg()}},
          {.name = "cuda.state_cache",
           .role = Role::StateCache,
           .summary = "recurrent states in f32, a slot per sequence"}};
}

std::vector<OperatorInfo> block_operators() {
  return {{.name = "cuda.attention",
           .role = Role::Attention,
           .summary = "grouped-query attention",
           .kwargs = {precision_kwarg()},
           .fits = has<AttentionParams>},
          {.name = "cuda.mla",
           .role = Role::Attention,
           .summary = "multi-head latent attention, absorbed or expanded",
           .kwargs = {precision_kwarg(), absorb_for_prefill_kwarg()},
           .fits = has<MlaParams>,
           .absorbed_children = {"kv_b_proj"}},
          {.name = "cuda.delta_net",
           .role = Role::Attention,
           .summary = "gated delta rule over a recurrent state",
           .fits = has<DeltaNetParams>},
          {.name = "cuda.indexer",
           .role = Role::Indexer,
           .summary = "top-k positions of sparse attention, scored over a cache of index keys",
           .fits = indexes_tokens},
          {.name = "cuda.compressed_indexer",
           .role = Role::Indexer,
           .summary = "top-k entries of compressed sparse attention",
           .fits = indexes_entries},
          {.name = "cuda.compressed_attention",
           .role = Role::Attention,
           .summary = "attention over a window and compressed entries",
           .kwargs = {precision_kwarg()},
           .fits = has<CompressedAttentionParams>},
          {.name = "cuda.compressor",
           .role = Role::Compressor,
           .summary = "entries of several tokens for compressed attention"},
          {.name = "cuda.router",
           .role = Role::Router,
           .summary = "top-k expert selection with routing weights"},
          {.name = "cuda.experts",
           .role = Role::Experts,
           .summary = "routed experts, tokens grouped by expert; with weights in host memory, "
                      "streams them for prefill and keeps copies of some",
           .kwargs = {precision_kwarg(), stream_from_kwarg(), gpu_experts_kwarg()}},
          {.name = "cuda.mlp", .role = Role::Mlp, .summary = "silu(gate) * up, then down"},
          {.name = "cuda.moe",
           .role = Role::Moe,
           .summary = "router, experts and shared experts; overlaps with experts on another "
                      "device"}};
}

bool has_short_heads(const Params& params) {
  const auto* tower = std::get_if<VisionTowerParams>(&params);
  return tower == nullptr || tower->hidden_size / tower->num_heads <= kMaxVisionHeadDim;
}

std::vector<OperatorInfo> vision_operators() {
  return {{.name = "cuda.vision_tower",
           .role = Role::VisionTower,
           .summary = "CLIP vision tower",
           .kwargs = {precision_kwarg()},
           .fits = has_short_heads},
          {.name = "cuda.multi_modal_projector",
           .role = Role::Projector,
           .summary = "linear, activation, linear",
           .kwargs = {precision_kwarg()}}};
}

std::vector<OperatorInfo> make_cuda_operators() {
  std::vector<OperatorInfo> all = leaf_operators();
  for (OperatorInfo& info : block_operators())
    all.push_back(std::move(info));
  for (OperatorInfo& info : vision_operators())
    all.push_back(std::move(info));
  for (OperatorInfo& info : all) {
    info.device = DeviceType::Cuda;
    info.is_native = true;
  }
  return all;
}

}  // namespace

std::span<const OperatorInfo> cuda_operators() {
  static const std::vector<OperatorInfo> operators = make_cuda_operators();
  return operators;
}

}  // namespace graft::ops
