// Estimates what a plan costs on a machine: bytes per device, tokens per second, and the resource
// that limits them. A roofline over the modules of the plan: nothing is run and no weight is read.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/perf/machine.h"
#include "graft/plan/plan.h"

namespace graft::perf {

struct Workload {
  std::int64_t context = 4096;        // cached tokens per sequence
  std::int64_t parallel = 1;          // sequences decoded in one batch
  std::int64_t prefill_tokens = 512;  // tokens of one prefill chunk
};

// In bytes.
struct MemoryUse {
  std::uint64_t weights = 0;
  std::uint64_t kv_cache = 0;
  std::uint64_t workspace = 0;
  std::uint64_t capacity = 0;  // 0: unknown

  std::uint64_t total() const { return weights + kv_cache + workspace; }
  bool fits() const { return capacity == 0 || total() <= capacity; }
};

struct PhaseEstimate {
  double tokens_per_s = 0;
  std::string limit;                      // the bottleneck: "cpu memory (82 % of the time)"
  std::map<std::string, double> seconds;  // by resource; of one decode step or one prefill chunk
};

struct Estimate {
  std::map<Device, MemoryUse> devices;
  PhaseEstimate decode;  // decode, all sequences together
  PhaseEstimate prefill;

  bool fits() const;
};

Estimate estimate(const plan::Plan& plan, const MachineFigures& machine, const Workload& load);

// The devices whose memory is too small: "cpu needs 611.1 GiB, has 384.0 GiB"; "" when all fits.
std::string shortage_text(const Estimate& estimate);

// Tokens of a prefill pass from which on streaming the experts to the GPU takes less time than
// computing them on the CPU; 0: the plan streams none.
std::int64_t stream_break_even(const plan::Plan& plan, const MachineFigures& machine);
// Sets it for the streamed experts whose rules do not say from how many tokens on.
void set_stream_from(plan::Plan& plan, const MachineFigures& machine);

// Resolves gpu_experts: auto: as many copies per layer as the GPU has memory for beside everything
// else that the plan places there, equally many in all layers of a GPU. The sizes of the machine
// are the free memory. 0 in `load` means the defaults of placements (gpu_experts.h).
void resolve_gpu_experts(plan::Plan& plan, const MachineFigures& machine, const Workload& load);

// Bytes of f32 activations per token that an operator keeps alive at once.
double workspace_row_bytes(const plan::ModuleSpec& module);

}  // namespace graft::perf
