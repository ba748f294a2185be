// graft bench sessions: conversations of many users with a KV cache that is too small for them.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_sessions_bench(Command& bench);

}  // namespace graft::cli
