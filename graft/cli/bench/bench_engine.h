// graft bench throughput, latency, batch, prefix: engine benchmarks with server-like workloads.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_engine_benches(Command& bench);

}  // namespace graft::cli
