// graft bench throughput, latency, batch, prefix: the engine under loads as servers meet them.

#pragma once

#include <CLI/App.hpp>

namespace graft::cli {

void add_engine_benches(CLI::App& bench);

}  // namespace graft::cli
