// Measures this machine with this build's CPU operators, one rate per weight type. Takes about ten
// seconds; the roofline alone (limits.h) takes one to two.

#pragma once

#include "graft/base/parallel.h"
#include "graft/perf/machine.h"

namespace graft::perf {

MachineFigures measure_machine(ThreadPool& pool);

}  // namespace graft::perf
