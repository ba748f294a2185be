// The tiers of the KV cache in host memory and on disk.

#pragma once

#include <filesystem>
#include <string>

#include "graft/api/llm.h"
#include "graft/cli/command.h"

namespace graft::cli {

struct TierOptions {
  std::string host = {};  // size
  std::string disk = {};  // size
  std::string dir = {};

  void add_to(Command& command);
  void apply_to(api::EngineConfig& config) const;  // throws Error for an invalid size
  std::filesystem::path folder() const;            // --kv-dir or its default; throws Error

  static void add_dir_to(Command& command, std::string& dir);
};

}  // namespace graft::cli
