#include "graft/perf/model_bytes.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "graft/ops/devices/cuda_operators.h"
#include "graft/perf/gpu_experts.h"
#include "graft/perf/memory.h"
#include "graft/perf/work.h"

namespace graft::perf {
namespace {

using ops::Role;

constexpr std::int64_t kCacheElemBytes = 2;  // the KV cache holds f16

std::int64_t size_of(const plan::ModuleSpec& module) {
  std::size_t size = 0;
  for (const plan::WeightSpec& weight : module.weights)
    size += weight.bytes();
  return static_cast<std::int64_t>(size);
}

bool has_gpu_operator(const plan::ModuleSpec& module) {
  return std::ranges::any_of(ops::cuda_operators(), [&](const ops::OperatorInfo& op) {
    return op.role == module.role && op.supports(module.params);
  });
}

void count_layer(const plan::ModuleSpec& module, const Workload& load, ModelBytes& bytes) {
  LayerBytes& layer = bytes.layers[static_cast<std::size_t>(module.layer)];
  if (const auto* cache = std::get_if<ops::KvCacheParams>(&module.params))
    layer.per_token += (cache->key_size + cache->value_size) * kCacheElemBytes;
  layer.dense += static_cast<std::int64_t>(state_bytes(module)) * load.parallel;
  if (const auto* experts = std::get_if<ops::ExpertsParams>(&module.params)) {
    layer.experts += size_of(module);
    layer.packed_experts += static_cast<std::int64_t>(packed_weight_bytes(module));
    bytes.num_experts = std::max(bytes.num_experts, experts->num_experts);
    bytes.stream_buffers =
        std::max(bytes.stream_buffers,
                 static_cast<std::int64_t>(stream_buffer_bytes(module, *experts, load)));
  } else {
    layer.dense += size_of(module);
  }
}

}  // namespace

ModelBytes count_bytes(const plan::Blueprint& blueprint, const Workload& load) {
  ModelBytes bytes;
  bytes.layers.resize(static_cast<std::size_t>(blueprint.num_layers));
  bool is_tied = false;
  double row = 0;
  double scratch = 0;
  double vision_scratch = 0;
  blueprint.visit([&](const plan::ModuleSpec& module) {
    if (ops::is_vision(module.role)) {
      bytes.vision += size_of(module);
      bytes.has_gpu_vision = bytes.has_gpu_vision && has_gpu_operator(module);
      vision_scratch += vision_scratch_bytes(module);
      return;
    }
    row = std::max(row, workspace_row_bytes(module));
    scratch = std::max(scratch, attention_scratch_bytes(module, load, false));
    if (module.layer >= 0) return count_layer(module, load, bytes);
    is_tied = is_tied || (module.last_name() == "lm_head" && module.weights.empty());
    (module.role == Role::Embedding ? bytes.embedding : bytes.head) += size_of(module);
  });
  if (is_tied) bytes.head += bytes.embedding;
  const std::int64_t rows = std::max(load.prefill_tokens, load.parallel);
  bytes.workspace = static_cast<std::int64_t>(
      std::max(row * static_cast<double>(rows) + scratch, vision_scratch));
  bytes.logits = 4 * load.parallel * blueprint.vocab_size;
  return bytes;
}

}  // namespace graft::perf
