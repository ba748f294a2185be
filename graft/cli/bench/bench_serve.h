// graft bench serve: load test of a running server with concurrent clients.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_serve_bench(Command& bench);

}  // namespace graft::cli
