// graft bench structured: what structured output costs a decode step.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_structured_bench(Command& bench);

}  // namespace graft::cli
