// Keys and values of multi-head latent attention, read from its cache of latents: the latents
// themselves (for absorbed queries), or expanded for one head.

#pragma once

#include "graft/ops/cpu/attention/attend.h"
#include "graft/ops/operator.h"
#include "graft/ops/params.h"

namespace graft::ops::cpu {

// Keys are the cache's rows (of the selected positions), values their first kv_lora_rank columns.
class Latents final : public KeyValueSource {
 public:
  Latents(const KvCache& cache, const MlaParams& params) : cache_(cache), params_(params) {}

  // [kAttentionBlock, kv_lora_rank + qk_rope_head_dim]
  std::int64_t memory_elems() const override;
  KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const override;

 private:
  KeysAndValues load_selected(const HeadTile& tile, Positions positions, float* memory) const;

  const KvCache& cache_;
  const MlaParams& params_;
};

// Source i is head i: keys [K_h c, rope] and values V_h c, computed from the latents c.
class ExpandedHeads final : public KeyValueSource {
 public:
  ExpandedHeads(const KvCache& cache, const MlaParams& params, const Weight& kv_b_proj)
      : latents_(cache, params), params_(params), kv_b_proj_(kv_b_proj) {}

  std::int64_t memory_elems() const override;
  void prepare(const HeadTile& tile, float* memory) const override;
  KeysAndValues load(const HeadTile& tile, Positions positions, float* memory) const override;

 private:
  Latents latents_;
  const MlaParams& params_;
  const Weight& kv_b_proj_;
};

}  // namespace graft::ops::cpu
