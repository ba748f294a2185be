// graft bench serve: a running server under many clients.

#pragma once

#include <CLI/App.hpp>

namespace graft::cli {

void add_serve_bench(CLI::App& bench);

}  // namespace graft::cli
