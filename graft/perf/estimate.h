// Estimates what a plan costs on a machine: bytes per device, tokens per second, and the resource
// that limits them. Sums over the modules of the plan: nothing is run and no weight is read.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graft/perf/machine.h"
#include "graft/perf/memory.h"
#include "graft/plan/plan.h"

namespace graft::perf {

struct PhaseEstimate {
  double tokens_per_s = 0;
  std::string limit;                      // the bottleneck: "cpu memory (82 % of the time)"
  std::map<std::string, double> seconds;  // by resource; of one decode step or one prefill chunk
  double streamed_bytes = 0;              // of experts, of the same
};

struct Estimate {
  std::map<Device, MemoryUse> devices;
  PhaseEstimate decode;  // decode, all sequences together
  PhaseEstimate prefill;
  // Share of the routing that copies in GPU memory serve, on average over the layers with experts
  // in host memory; 0 without copies.
  double hit_rate = 0;

  bool fits() const;
  bool can_run() const;
};

Estimate estimate(const plan::Plan& plan, const MachineFigures& machine, const Workload& load);

// The same with the packed weights on the CPU in the cache file on disk, which every pass reads as
// far as they do not fit into memory beside what is allocated. Weights that every pass uses stay in
// memory if they fit; the rest of the memory holds an equal share of all routed experts. Reading
// and computing are added up: an upper bound on the time.
Estimate estimate_from_disk(const plan::Plan& plan,
                            const MachineFigures& machine,
                            const Workload& load);

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

}  // namespace graft::perf
