// The bytes that a pass reads from disk when the weights on the CPU do not fit into memory.

#pragma once

#include "graft/perf/estimate.h"
#include "graft/perf/work.h"

namespace graft::perf {

class DiskReads {
 public:
  // `cpu`: the memory use with the packed weights in the cache file.
  DiskReads(const plan::Plan& plan, const MemoryUse& cpu);

  // Expected bytes of one pass.
  double bytes(const plan::Plan& plan, const PassSize& pass) const;
  // Adds their time to that of computing.
  void add_to(PhaseEstimate& phase,
              const plan::Plan& plan,
              const MachineFigures& machine,
              const PassSize& pass) const;

 private:
  double missing_dense_ = 0;    // share of the weights that every pass uses that is not in memory
  double missing_experts_ = 0;  // share of the routed experts
};

}  // namespace graft::perf
