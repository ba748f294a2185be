// graft bench serve: load test of a running server with concurrent clients.

#pragma once

#include <CLI/App.hpp>

namespace graft::cli {

void add_serve_bench(CLI::App& bench);

}  // namespace graft::cli
