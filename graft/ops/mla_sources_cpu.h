// Keys and values of multi-head latent attention, read from its cache of latents: as they are (for
// absorbed queries), or expanded for one head.

#pragma once

#include "graft/ops/attend_cpu.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"

namespace graft::ops {

// Keys are the cache's rows, values their leading kv_lora_rank.
class Latents final : public KeyValueSource {
 public:
  // memory: [kAttentionBlock, kv_lora_rank + qk_rope_head_dim]
  Latents(const KvCache& cache,
          const SequenceSlice& sequence,
          const MlaParams& params,
          float* memory)
      : cache_(cache), sequence_(sequence), params_(params), rows_(memory) {}

  KeysAndValues load(std::int64_t begin, std::int64_t end) override;

 private:
  const KvCache& cache_;
  const SequenceSlice& sequence_;
  const MlaParams& params_;
  float* rows_;
};

class ExpandedHead final : public KeyValueSource {
 public:
  static std::int64_t scratch_elems(const MlaParams& params);

  // memory: scratch_elems(params) floats
  ExpandedHead(const KvCache& cache,
               const SequenceSlice& sequence,
               const MlaParams& params,
               float* memory);

  // Before the first load(): the head's rows of kv_b_proj.
  void decode_weights(const Weight& kv_b_proj, std::int64_t head);
  KeysAndValues load(std::int64_t begin, std::int64_t end) override;

 private:
  const MlaParams& params_;
  Latents latents_;
  float* weights_;  // [nope + v, kv_lora_rank]
  float* keys_;     // [kAttentionBlock, nope + rope]
  float* values_;   // [kAttentionBlock, v]
};

}  // namespace graft::ops
