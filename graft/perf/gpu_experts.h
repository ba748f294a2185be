// GPU memory for experts in host memory: the buffers of streaming, and what copies may take.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/ops/params.h"
#include "graft/perf/estimate.h"

namespace graft::perf {

// Fraction of a GPU's free memory for weights, KV cache and workspace; the rest covers CUDA graphs,
// the libraries' own memory and fragmentation.
inline constexpr double kUsableShare = 0.92;

// Tokens of a prefill pass that placements leave workspace for: the default of the engine, and more
// where every pass streams the experts.
inline constexpr std::int64_t kPlacedTokens = 2048;
inline constexpr std::int64_t kStreamedTokens = 8192;

// Whether workspace for kStreamedTokens is worth the copies that it costs: long passes stream the
// experts less often. `copies_*` of num_experts, with workspace for kStreamedTokens and for
// kPlacedTokens: it keeps half of them, or there are few either way.
constexpr bool prefers_long_passes(std::int64_t copies_long,
                                   std::int64_t copies_short,
                                   std::int64_t num_experts) {
  return 2 * copies_long >= copies_short || 16 * copies_short < num_experts;
}

// The context that placements leave memory for when the user names none: that of the model, max
// 32768 tokens.
std::int64_t default_context(const plan::Blueprint& blueprint);

// The share of the routing that copies in GPU memory serve when they are those of the most used
// experts. `pairs`: how often each expert was used, by module; modules without any are left out.
double hit_rate(const plan::Plan& plan,
                const std::map<std::string, std::vector<std::uint64_t>>& pairs);

// Bytes of the ring, the unpacked group and the rows on a GPU that streams experts (docs/rules.md,
// Streamed experts).
double stream_buffer_bytes(const plan::ModuleSpec& module,
                           const ops::ExpertsParams& params,
                           const Workload& load);
std::map<Device, std::uint64_t> stream_buffer_bytes(const plan::Plan& plan, const Workload& load);

}  // namespace graft::perf
