#include "graft/perf/memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <variant>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/cpu/packed.h"
#include "graft/ops/devices/cuda_operators.h"
#include "graft/ops/fusions.h"
#include "graft/packing/panel_layout.h"
#include "graft/perf/gpu_experts.h"
#include "graft/perf/work.h"

namespace graft::perf {
namespace {

using ops::Role;

// Of one module, all shares.
struct WeightBytes {
  std::uint64_t total = 0;
  std::uint64_t mapped = 0;  // of total
};

bool has_kwarg(const plan::Placement& placement, std::string_view key, std::string_view value) {
  const auto found = placement.kwargs.find(std::string(key));
  return found != placement.kwargs.end() && found->second == value;
}

// Norms and biases are decoded to f32 on every device.
bool is_decoded(const plan::ModuleSpec& module, const plan::WeightSpec& weight) {
  return module.role == Role::Norm || weight.shape.size() < 2;
}

std::uint64_t f32_bytes(const plan::WeightSpec& weight) {
  return static_cast<std::uint64_t>(weight.num_elems()) * sizeof(float);
}

// Null when the type or the shape cannot be packed for the CPU kernels.
std::optional<std::uint64_t> packed_bytes(const plan::WeightSpec& weight) {
  const std::int64_t cols = weight.shape.back();
  if (!ops::cpu::can_pack(weight.dtype, cols)) return std::nullopt;
  return static_cast<std::uint64_t>(
      packing::packed_bytes(weight.dtype, weight.num_elems() / cols, cols));
}

WeightBytes bytes_on_cpu(const plan::Plan& plan,
                         const plan::Placement& placement,
                         const HostWeights& host) {
  const plan::ModuleSpec& module = *placement.module;
  const bool is_packable = (module.role == Role::Linear || module.role == Role::Experts ||
                            ops::is_vision(module.role)) &&
                           host.repack && !has_kwarg(placement, "repack", "false");
  WeightBytes bytes;
  for (const plan::WeightSpec& weight : weights_of(plan, module)) {
    if (is_decoded(module, weight)) {
      bytes.total += f32_bytes(weight);
      continue;
    }
    const std::optional<std::uint64_t> packed = is_packable ? packed_bytes(weight) : std::nullopt;
    if (packed) {
      bytes.total += *packed;
      if (host.from_disk) bytes.mapped += *packed;
    } else {
      // A mapped weight of a tied head is there once.
      const bool is_shared = module.weights.empty();
      bytes.total += is_shared ? 0 : weight.bytes();
      bytes.mapped += is_shared ? 0 : weight.bytes();
    }
  }
  return bytes;
}

// In panels where GPUs multiply those; older GPUs keep the stored bytes, which are a little fewer.
std::uint64_t gpu_bytes(const plan::Placement& placement, const plan::WeightSpec& weight) {
  const Role role = placement.module->role;
  const bool is_packable =
      (role == Role::Linear || role == Role::Experts || ops::is_vision(role)) &&
      ops::has_cuda_panels(weight.dtype) && !has_kwarg(placement, "precision", "f32");
  const std::int64_t cols = weight.shape.back();
  return is_packable ? static_cast<std::uint64_t>(
                           packing::packed_bytes(weight.dtype, weight.num_elems() / cols, cols))
                     : weight.bytes();
}

WeightBytes bytes_on_gpu(const plan::Plan& plan, const plan::Placement& placement) {
  WeightBytes bytes;
  if (placement.host_op != nullptr) {  // copies of what the CPU holds
    bytes.total = packed_weight_bytes(*placement.module);
    return bytes;
  }
  for (const plan::WeightSpec& weight : weights_of(plan, *placement.module)) {
    bytes.total +=
        is_decoded(*placement.module, weight) ? f32_bytes(weight) : gpu_bytes(placement, weight);
  }
  return bytes;
}

// Weights of a child that the operator loads itself: kv_b_proj of MLA. GPUs hold it in 16 bits, or
// in f32 when it is stored so. On the CPU f32 means that GGUF's two tensors are joined in memory.
WeightBytes absorbed_bytes(const plan::Placement& parent, const plan::ModuleSpec& child) {
  WeightBytes bytes;
  for (const plan::WeightSpec& weight : child.weights) {
    const bool is_f32 = weight.dtype == DType::F32;
    if (parent.decode.device() == kCpu) {
      bytes.total += weight.bytes();
      if (!is_f32) bytes.mapped += weight.bytes();
    } else {
      const bool is_exact = is_f32 || has_kwarg(parent, "precision", "f32");
      bytes.total += static_cast<std::uint64_t>(weight.num_elems()) * (is_exact ? 4U : 2U);
    }
  }
  return bytes;
}

// Of a tile of CLIP at 336 pixels, the largest size that LLaVA has.
constexpr std::int64_t kTileFeatures = 576;

std::uint64_t share_of(std::uint64_t bytes, const plan::Share& share) {
  return static_cast<std::uint64_t>(std::llround(share.held * static_cast<double>(bytes)));
}

void add_shares(const plan::Plan& plan,
                const plan::Placement& placement,
                const plan::PhasePlacement& phase,
                const HostWeights& host,
                std::map<Device, MemoryUse>& devices) {
  for (const plan::Share& share : phase.shares) {
    const WeightBytes bytes =
        share.device == kCpu ? bytes_on_cpu(plan, placement, host) : bytes_on_gpu(plan, placement);
    devices[share.device].weights += share_of(bytes.total, share);
    devices[share.device].mapped += share_of(bytes.mapped, share);
  }
}

void add_weights(const plan::Plan& plan,
                 const HostWeights& host,
                 std::map<Device, MemoryUse>& devices) {
  std::set<const plan::ModuleSpec*> absorbed;
  for (const plan::Placement& placement : plan.placements) {
    for (const plan::ModuleSpec& child : placement.module->children) {
      if (!placement.absorbs(child)) continue;
      absorbed.insert(&child);
      const WeightBytes bytes = absorbed_bytes(placement, child);
      devices[placement.decode.device()].weights += bytes.total;
      devices[placement.decode.device()].mapped += bytes.mapped;
    }
    if (absorbed.contains(placement.module)) continue;
    add_shares(plan, placement, placement.decode, host, devices);
    // Prefill on other devices needs a second copy of the weights, unless it streams them.
    const bool is_copied = plan::stream_from(placement) == 0;
    if (is_copied && placement.prefill.shares != placement.decode.shares)
      add_shares(plan, placement, placement.prefill, host, devices);
  }
}

// Copies of what some tokens attend to, and scores of whole contexts.
double compressed_scratch_bytes(const ops::CompressedAttentionParams& params,
                                const Workload& load) {
  constexpr double kCachedBytes = 2;  // F16
  std::int64_t entries = params.compress_rate == 0 ? 0 : load.context / params.compress_rate;
  if (params.index_top_k > 0) entries = std::min(entries, params.index_top_k);
  const std::int64_t attended = entries + std::min(load.context, params.sliding_window);
  const double row_bytes = kCachedBytes * static_cast<double>(attended * params.head_dim);
  const auto rows = static_cast<double>(std::max(load.prefill_tokens, load.parallel));
  const double copies = std::min(row_bytes * rows, static_cast<double>(ops::kMlaSelectedBytes));
  return copies + (params.index_top_k > 0 ? static_cast<double>(ops::kIndexScoreBytes) : 0.0);
}

// The F16 copies of keys and values of a quantized KV cache on a GPU; latents have none.
double gathered_head_bytes(const plan::Placement& placement, const Workload& load) {
  const auto* cache = std::get_if<ops::KvCacheParams>(&placement.module->params);
  if (cache == nullptr || cache->value_size == 0) return 0;
  const double row_bytes = kv_bytes_per_token(placement);
  const double f16_bytes = 2 * static_cast<double>(cache->key_size + cache->value_size);
  if (row_bytes >= f16_bytes) return 0;
  const auto positions = static_cast<double>(std::max(load.context, load.prefill_tokens));
  return std::min(positions * f16_bytes, static_cast<double>(ops::kGatheredHeadBytes));
}

}  // namespace

// Of a sequence. Where every layer has a window, blocks before it are freed: the window is kept
// beside the chunk of a step.
std::int64_t cached_tokens_of(const plan::Blueprint& blueprint, const Workload& load) {
  const std::int64_t window = blueprint.attention_window();
  return window == 0
             ? load.context
             : std::min(load.context, window + std::max<std::int64_t>(load.prefill_tokens, 1));
}

double workspace_row_bytes(const plan::ModuleSpec& module) {
  struct RowElems {
    double operator()(const ops::AttentionParams& p) const {
      const std::int64_t num_q = p.output_gate ? 4 * p.num_heads : 2 * p.num_heads;
      return static_cast<double>((num_q + 2 * p.num_key_value_heads) * p.head_dim);
    }
    double operator()(const ops::DeltaNetParams& p) const {
      return static_cast<double>(2 * p.conv_channels() + 2 * p.value_size());
    }
    double operator()(const ops::MlaParams& p) const {
      const std::int64_t head = p.qk_nope_head_dim + p.qk_rope_head_dim + p.v_head_dim;
      return static_cast<double>(p.num_heads * head + p.q_lora_rank + p.kv_lora_rank +
                                 p.index_top_k);
    }
    double operator()(const ops::CompressedAttentionParams& p) const {
      return static_cast<double>(2 * p.num_heads * p.head_dim + p.q_lora_rank + p.head_dim +
                                 p.output_groups * p.output_lora_rank + p.index_top_k);
    }
    double operator()(const ops::CompressorParams& p) const {
      return static_cast<double>(2 * p.row_size() + p.head_dim);
    }
    // The streams, what a block reads and returns, and the sums over slices of 256 columns.
    double operator()(const ops::HyperConnectionParams& p) const {
      const std::int64_t slices = p.mult * p.hidden_size / 256 + 1;
      return static_cast<double>((p.mult + 2) * p.hidden_size + (p.mult + 1) * p.mult +
                                 slices * ((p.mult + 2) * p.mult + 1));
    }
    double operator()(const ops::IndexerParams& p) const {
      return static_cast<double>(p.num_heads * (p.head_dim + 1) + p.head_dim);
    }
    double operator()(const ops::MlpParams& p) const {
      return static_cast<double>(2 * p.intermediate_size + 2 * p.hidden_size);
    }
    double operator()(const ops::ExpertsParams& p) const {
      return static_cast<double>(p.top_k * (2 * p.intermediate_size + p.hidden_size) +
                                 p.hidden_size);
    }
    double operator()(const ops::NormParams& p) const { return 3.0 * static_cast<double>(p.size); }
    double operator()(const ops::NoParams&) const { return 0; }
    double operator()(const ops::EmbeddingParams&) const { return 0; }
    double operator()(const ops::LinearParams&) const { return 0; }
    double operator()(const ops::RopeParams&) const { return 0; }
    double operator()(const ops::KvCacheParams&) const { return 0; }
    double operator()(const ops::StateCacheParams&) const { return 0; }
    double operator()(const ops::VisionTowerParams&) const { return 0; }
    double operator()(const ops::ProjectorParams&) const { return 0; }
    double operator()(const ops::RouterParams& p) const {
      return static_cast<double>(p.num_experts);
    }
  };
  return kF32Bytes * std::visit(RowElems{}, module.params);
}

double attention_scratch_bytes(const plan::ModuleSpec& module, const Workload& load, bool absorbs) {
  const auto* compressed = std::get_if<ops::CompressedAttentionParams>(&module.params);
  if (compressed != nullptr) return compressed_scratch_bytes(*compressed, load);
  const auto* mla = std::get_if<ops::MlaParams>(&module.params);
  if (mla == nullptr) return 0;
  constexpr double kF16Bytes = 2;
  const auto heads = static_cast<double>(mla->num_heads);
  const std::int64_t latent = mla->kv_lora_rank + mla->qk_rope_head_dim;
  // Sparse attention copies the latents that some tokens selected, and scores whole contexts.
  const double selected = mla->index_top_k == 0
                              ? 0.0
                              : static_cast<double>(ops::kMlaSelectedBytes + ops::kIndexScoreBytes);
  // Absorbed queries and the sums of latents.
  const double absorbed_row = kF32Bytes * heads * static_cast<double>(latent + mla->kv_lora_rank);
  const std::int64_t rows = std::max(load.prefill_tokens, load.parallel);
  if (absorbs) return selected + absorbed_row * static_cast<double>(rows);
  const auto positions = static_cast<double>(std::max(load.context, load.prefill_tokens));
  const double expanded =
      kF16Bytes * positions * heads * static_cast<double>(mla->qk_nope_head_dim + mla->v_head_dim);
  return selected +
         std::max(absorbed_row * static_cast<double>(std::min(rows, ops::kMlaAbsorbedRows)),
                  kF16Bytes * positions * static_cast<double>(latent) +
                      std::min(expanded, static_cast<double>(ops::kMlaExpandedBytes)));
}

double vision_scratch_bytes(const plan::ModuleSpec& module) {
  if (const auto* tower = std::get_if<ops::VisionTowerParams>(&module.params)) {
    const std::int64_t patch = 3 * tower->patch_size * tower->patch_size;
    return kF32Bytes * static_cast<double>(tower->num_tokens() * (patch + 9 * tower->hidden_size +
                                                                  tower->intermediate_size));
  }
  if (const auto* projector = std::get_if<ops::ProjectorParams>(&module.params)) {
    return kF32Bytes * static_cast<double>(kTileFeatures *
                                           (projector->in_features + 2 * projector->hidden_size));
  }
  return 0;
}

std::map<Device, MemoryUse> memory_use(const plan::Plan& plan,
                                       const Workload& load,
                                       const HostWeights& host) {
  std::map<Device, MemoryUse> devices;
  devices[kCpu] = {.kv_cache = load.host_tier};
  add_weights(plan, host, devices);
  std::map<Device, double> widest;
  std::map<Device, double> scratch;
  std::map<Device, double> vision;
  const double cached_tokens = static_cast<double>(cached_tokens_of(*plan.blueprint, load)) *
                               static_cast<double>(load.parallel);
  for (const plan::Placement& placement : plan.placements) {
    devices[placement.decode.device()].kv_cache +=
        static_cast<std::uint64_t>(kv_bytes_per_token(placement) * cached_tokens);
    devices[placement.decode.device()].states += static_cast<std::uint64_t>(
        state_bytes(*placement.module) * static_cast<double>(load.parallel));
    double& row = widest[placement.decode.device()];
    row = std::max(row, workspace_row_bytes(*placement.module));
    vision[placement.prefill.device()] += vision_scratch_bytes(*placement.module);
    if (placement.decode.device() == kCpu) continue;
    double& bytes = scratch[placement.decode.device()];
    bytes = std::max({bytes, gathered_head_bytes(placement, load),
                      attention_scratch_bytes(*placement.module, load,
                                              has_kwarg(placement, "absorb_for_prefill", "true"))});
  }
  const auto rows = static_cast<double>(std::max(load.prefill_tokens, load.parallel));
  for (auto& [device, row] : widest)
    devices[device].workspace = static_cast<std::uint64_t>(row * rows + scratch[device]);
  for (const auto& [device, bytes] : vision) {  // in the same memory, before a pass
    devices[device].workspace =
        std::max(devices[device].workspace, static_cast<std::uint64_t>(bytes));
  }
  for (const auto& [device, bytes] : stream_buffer_bytes(plan, load))
    devices[device].workspace += bytes;
  const double logits = kF32Bytes * static_cast<double>(load.parallel) *
                        static_cast<double>(plan.blueprint->vocab_size);
  devices[kCpu].workspace += static_cast<std::uint64_t>(logits);
  return devices;
}

std::uint64_t packed_weight_bytes(const plan::ModuleSpec& module) {
  std::uint64_t sum = 0;
  for (const plan::WeightSpec& weight : module.weights)
    sum += packed_bytes(weight).value_or(weight.bytes());
  return sum;
}

}  // namespace graft::perf
