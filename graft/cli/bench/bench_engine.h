// graft bench throughput, latency, batch, prefix: engine benchmarks with server-like workloads.

#pragma once

#include <CLI/App.hpp>

namespace graft::cli {

void add_engine_benches(CLI::App& bench);

}  // namespace graft::cli
