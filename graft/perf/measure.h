// Measures the figures of this machine with this build's own operators. Takes some
// ten seconds; the limits alone (limits.h) take one.

#pragma once

#include "graft/base/parallel.h"
#include "graft/perf/machine.h"

namespace graft::perf {

MachineFigures measure_machine(ThreadPool& pool);

}  // namespace graft::perf
