// What the commands that run a model have in common: the model, the rules for it, the threads.

#pragma once

#include <cstddef>
#include <string>

#include <CLI/App.hpp>

#include "graft/api/llm.h"
#include "graft/cli/rule_options.h"

namespace graft::cli {

struct ModelOptions {
  std::string path;
  std::string rules;  // empty: the default of the model's family
  PluginOptions plugins;
  std::size_t threads = 0;
  std::string processors;  // a list; empty: threads are not pinned
  bool no_repack = false;

  void add_to(CLI::App& command);
  api::LlmConfig config() const;
};

}  // namespace graft::cli
