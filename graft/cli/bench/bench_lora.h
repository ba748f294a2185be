// graft bench lora: what LoRA adapters cost a decode step.

#pragma once

#include "graft/cli/command.h"

namespace graft::cli {

void add_lora_bench(Command& bench);

}  // namespace graft::cli
