// GPU memory for experts in host memory: the buffers of streaming, and what copies may take.

#pragma once

#include <cstdint>
#include <map>

#include "graft/ops/params.h"
#include "graft/perf/estimate.h"

namespace graft::perf {

// Fraction of a GPU's free memory for weights, KV cache and workspace; the rest covers CUDA graphs,
// the libraries' own memory and fragmentation.
inline constexpr double kUsableShare = 0.92;

// Bytes of the ring, the unpacked group and the rows on a GPU that streams experts (docs/rules.md,
// Streamed experts).
double stream_buffer_bytes(const plan::ModuleSpec& module,
                           const ops::ExpertsParams& params,
                           const Workload& load);
std::map<Device, std::uint64_t> stream_buffer_bytes(const plan::Plan& plan, const Workload& load);

}  // namespace graft::perf
