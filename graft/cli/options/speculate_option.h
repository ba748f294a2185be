// The flag --speculate.

#pragma once

#include <string>

#include "graft/api/llm.h"
#include "graft/cli/command.h"

namespace graft::cli {

struct SpeculateOption {
  std::string text = {};  // empty: off

  void add_to(Command& command);
  void apply_to(api::EngineConfig& config) const;
};

}  // namespace graft::cli
