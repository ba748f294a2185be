#include "graft/perf/work.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <variant>

#include "graft/ops/builtin_kwargs.h"
#include "graft/ops/kwargs.h"

namespace graft::perf {
namespace {

using ops::Role;

// Expected share of a layer's experts that `rows` tokens use when routing is uniformly random.
double touched_share(const ops::ExpertsParams& experts, double rows) {
  const double share = static_cast<double>(experts.top_k) /
                       static_cast<double>(std::max<std::int64_t>(experts.num_experts, 1));
  return 1.0 - std::pow(1.0 - share, rows);
}

bool is_head(const plan::ModuleSpec& module) {
  return module.role == Role::Linear && module.last_name() == "lm_head";
}

// Weight bytes read and operations done for `rows` tokens.
void add_weights(const plan::ModuleSpec& module,
                 const std::vector<plan::WeightSpec>& weights,
                 double rows,
                 Work& work) {
  if (ops::is_vision(module.role)) return;  // runs per image, not per token
  work.rows = rows;
  if (const auto* experts = std::get_if<ops::ExpertsParams>(&module.params)) {
    work.is_grouped = true;
    work.rows *= static_cast<double>(experts->top_k) /
                 (static_cast<double>(std::max<std::int64_t>(experts->num_experts, 1)) *
                  touched_share(*experts, rows));
  }
  std::size_t largest = 0;
  for (const plan::WeightSpec& weight : weights) {
    const auto bytes = static_cast<double>(weight.bytes());
    const auto elems = static_cast<double>(weight.num_elems());
    if (module.role == Role::Embedding) {
      // A lookup: one row per token.
      work.weight_bytes +=
          rows * bytes / static_cast<double>(std::max<std::int64_t>(weight.shape[0], 1));
    } else if (const auto* experts = std::get_if<ops::ExpertsParams>(&module.params)) {
      work.weight_bytes += bytes * touched_share(*experts, rows);
      work.weight_flops += 2 * elems * rows * static_cast<double>(experts->top_k) /
                           static_cast<double>(experts->num_experts);
    } else {
      work.weight_bytes += bytes;
      work.weight_flops += 2 * elems * rows;
    }
    if (weight.bytes() > largest) {
      largest = weight.bytes();
      work.dtype = weight.dtype;
    }
  }
}

// Whether latent attention expands keys and values in this phase: without a kwarg, for prefill on a
// GPU.
bool is_expanded(const plan::Placement& placement, Phase phase) {
  const auto is_true = [&](std::string_view key, bool fallback) {
    const auto found = placement.kwargs.find(key);
    return found == placement.kwargs.end() ? fallback
                                           : ops::parse_bool(found->second).value_or(fallback);
  };
  const bool is_cpu = placement.running(phase).device() == kCpu;
  const bool absorbs = !is_cpu || is_true(ops::absorb_kwarg().key, true);
  if (phase == Phase::Decode) return !absorbs;
  return !is_true(ops::absorb_for_prefill_kwarg().key, is_cpu && absorbs);
}

// Latent attention reads all entries of contexts that are not longer than what an indexer selects.
bool is_sparse(const plan::ModuleSpec& module, const PassSize& pass) {
  const auto* mla = std::get_if<ops::MlaParams>(&module.params);
  const double longest = pass.phase == Phase::Prefill ? pass.rows : pass.context;
  return mla != nullptr && mla->index_top_k > 0 && longest > static_cast<double>(mla->index_top_k);
}

// Operations of QK^T and PV for `rows` tokens over `context` cached tokens each.
double attention_flops(const plan::Placement& placement, const PassSize& pass) {
  const plan::ModuleSpec& module = *placement.module;
  const double rows = pass.rows;
  const double context = pass.context;
  if (const auto* gqa = std::get_if<ops::AttentionParams>(&module.params)) {
    const std::int64_t limit = gqa->sliding_window > 0 ? gqa->sliding_window : gqa->chunk;
    const double attended = limit > 0 ? std::min(context, static_cast<double>(limit)) : context;
    return 4 * rows * attended * static_cast<double>(gqa->num_heads * gqa->head_dim);
  }
  if (const auto* mla = std::get_if<ops::MlaParams>(&module.params)) {
    const bool expands = is_expanded(placement, pass.phase) && !is_sparse(module, pass);
    const std::int64_t head = expands
                                  ? mla->qk_nope_head_dim + mla->qk_rope_head_dim + mla->v_head_dim
                                  : 2 * mla->kv_lora_rank + mla->qk_rope_head_dim;
    const double attended =
        mla->index_top_k > 0 ? std::min(context, static_cast<double>(mla->index_top_k)) : context;
    return 2 * rows * attended * static_cast<double>(mla->num_heads * head);
  }
  if (const auto* attention = std::get_if<ops::CompressedAttentionParams>(&module.params)) {
    double entries =
        attention->compress_rate > 0 ? context / static_cast<double>(attention->compress_rate) : 0;
    if (attention->index_top_k > 0)
      entries = std::min(entries, static_cast<double>(attention->index_top_k));
    const double window = std::min(context, static_cast<double>(attention->sliding_window));
    return 4 * rows * (window + entries) *
           static_cast<double>(attention->num_heads * attention->head_dim);
  }
  // The state is scaled, read, updated and read again for every token, at any context.
  if (const auto* net = std::get_if<ops::DeltaNetParams>(&module.params)) {
    return 7 * rows *
           static_cast<double>(net->num_value_heads * net->key_head_dim * net->value_head_dim);
  }
  if (const auto* indexer = std::get_if<ops::IndexerParams>(&module.params)) {
    return 2 * rows * context / static_cast<double>(indexer->compress_rate) *
           static_cast<double>(indexer->num_heads * indexer->head_dim);
  }
  return 0;
}

}  // namespace

const std::vector<plan::WeightSpec>& weights_of(const plan::Plan& plan,
                                                const plan::ModuleSpec& module) {
  if (!is_head(module) || !module.weights.empty()) return module.weights;
  const auto embedding = std::ranges::find_if(
      plan.placements,
      [](const plan::Placement& placement) { return placement.module->role == Role::Embedding; });
  return embedding == plan.placements.end() ? module.weights : embedding->module->weights;
}

Work Work::operator*(double fraction) const {
  return {.weight_bytes = fraction * weight_bytes,
          .weight_flops = fraction * weight_flops,
          .context_bytes = fraction * context_bytes,
          .context_flops = fraction * context_flops,
          .rows = rows,
          .steps = steps,
          .is_grouped = is_grouped,
          .is_sparse = is_sparse,
          .dtype = dtype};
}

double kv_bytes_per_token(const plan::Placement& placement) {
  const auto* cache = std::get_if<ops::KvCacheParams>(&placement.module->params);
  if (cache == nullptr) return 0;
  const auto chosen = placement.kwargs.find("dtype");
  const std::optional<DType> dtype =
      chosen == placement.kwargs.end() ? std::nullopt : ops::cache_dtype(chosen->second);
  // f16 is the operator's default.
  return static_cast<double>(bytes_of(dtype.value_or(DType::F16), cache->key_size)) +
         static_cast<double>(bytes_of(dtype.value_or(DType::F16), cache->value_size));
}

double state_bytes(const plan::ModuleSpec& module) {
  const auto* states = std::get_if<ops::StateCacheParams>(&module.params);
  if (states == nullptr) return 0;
  return sizeof(float) * static_cast<double>(states->recurrent_size + states->conv_size);
}

Work module_work(const plan::Plan& plan, const plan::Placement& placement, const PassSize& pass) {
  const plan::ModuleSpec& module = *placement.module;
  const bool prefill = pass.phase == Phase::Prefill;
  Work work;
  // Only the last token of a prompt needs logits.
  const double rows = prefill && is_head(module) ? 1 : pass.rows;
  add_weights(module, weights_of(plan, module), rows, work);
  if (module.role == Role::Attention || module.role == Role::Indexer)
    work.context_flops = attention_flops(placement, pass);
  work.is_sparse = is_sparse(module, pass);
  if (std::holds_alternative<ops::DeltaNetParams>(module.params)) work.steps = prefill ? rows : 1;
  // Prefill reads the KV cache once for all tokens of the prompt.
  if (const auto* cache = std::get_if<ops::KvCacheParams>(&module.params)) {
    const double read = cache->max_reads > 0 && !prefill
                            ? std::min(pass.context, static_cast<double>(cache->max_reads))
                            : pass.context;
    work.context_bytes = kv_bytes_per_token(placement) * read * (prefill ? 1 : pass.rows);
  }
  // A pass reads and writes the state of each of its sequences.
  if (module.role == Role::StateCache)
    work.context_bytes = 2 * state_bytes(module) * (prefill ? 1 : pass.rows);
  return work;
}

Work pass_work(const plan::Plan& plan, const PassSize& pass) {
  Work total;
  for (const plan::Placement& placement : plan.placements) {
    const Work work = module_work(plan, placement, pass);
    total.weight_bytes += work.weight_bytes;
    total.weight_flops += work.weight_flops;
    total.context_bytes += work.context_bytes;
    total.context_flops += work.context_flops;
  }
  return total;
}

PassSize decode_pass(std::int64_t num_sequences, double context) {
  return {.phase = Phase::Decode, .rows = static_cast<double>(num_sequences), .context = context};
}

PassSize prefill_pass(std::int64_t num_tokens) {
  const auto rows = static_cast<double>(num_tokens);
  return {.phase = Phase::Prefill, .rows = rows, .context = rows / 2};
}

}  // namespace graft::perf
