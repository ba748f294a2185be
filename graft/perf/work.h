// Bytes read and operations done by one pass through a model, independent of the machine.
// estimate.h turns them into seconds, `graft bench` into a share of the machine's limits.

#pragma once

#include <cstdint>
#include <vector>

#include "graft/plan/plan.h"

namespace graft::perf {

using ops::Phase;

inline constexpr double kF32Bytes = 4;

struct PassSize {
  Phase phase = Phase::Decode;
  double rows = 0;     // tokens computed
  double context = 0;  // cached tokens each row attends to
};

struct Work {
  double weight_bytes = 0;  // experts: the expected share used under uniformly random routing
  double weight_flops = 0;
  double context_bytes = 0;   // K and V
  double context_flops = 0;   // QK^T and PV
  double rows = 0;            // per matrix; experts: of an expert that is used, on average
  double steps = 0;           // of a recurrence, one after the other
  bool is_grouped = false;    // experts
  bool is_sparse = false;     // attention that reads the entries that an indexer selects
  DType dtype = DType::BF16;  // of the largest weight

  double bytes() const { return weight_bytes + context_bytes; }
  double flops() const { return weight_flops + context_flops; }
  Work operator*(double fraction) const;
};

Work module_work(const plan::Plan& plan, const plan::Placement& placement, const PassSize& pass);
// The sums over all modules, of bytes and operations only.
Work pass_work(const plan::Plan& plan, const PassSize& pass);

PassSize decode_pass(std::int64_t num_sequences, double context);
// The context is half the prompt: the average over its tokens under causal attention.
PassSize prefill_pass(std::int64_t num_tokens);

// The weights that the operator of a module loads: a tied lm_head has none of its own and loads
// those of the embedding.
const std::vector<plan::WeightSpec>& weights_of(const plan::Plan& plan,
                                                const plan::ModuleSpec& module);

// 0 for modules other than a KV cache.
double kv_bytes_per_token(const plan::Placement& placement);
// Of one sequence; 0 for modules other than a cache of recurrent states.
double state_bytes(const plan::ModuleSpec& module);

}  // namespace graft::perf
