// How much one pass through a model reads and computes, whatever the machine. Estimates make
// seconds of it, `graft bench` shares of what the machine could do.

#pragma once

#include <cstdint>

#include "graft/plan/plan.h"

namespace graft::perf {

using ops::Phase;

// What one pass does, in tokens.
struct PassSize {
  Phase phase = Phase::Decode;
  double rows = 0;
  double context = 0;  // that a row sees
};

struct Work {
  double weight_bytes = 0;  // of experts, those that so many tokens touch when each draws at random
  double weight_flops = 0;
  double context_bytes = 0;   // keys and values
  double context_flops = 0;   // scores and sums
  DType dtype = DType::BF16;  // of most of the weights

  double bytes() const { return weight_bytes + context_bytes; }
  double flops() const { return weight_flops + context_flops; }
};

// Of one of the plan's placements.
Work module_work(const plan::Plan& plan, const plan::Placement& placement, const PassSize& pass);
// Of all modules; `dtype` says nothing then.
Work pass_work(const plan::Plan& plan, const PassSize& pass);

PassSize generate_pass(std::int64_t num_sequences, double context);
// A token of a prompt sees half of it on average.
PassSize prefill_pass(std::int64_t num_tokens);

// 0 for what is no KV cache.
double kv_bytes_per_token(const plan::Placement& placement);

}  // namespace graft::perf
