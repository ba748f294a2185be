// What the commands that run a model have in common: the model, the rules for it, the threads.

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "graft/api/catalog.h"
#include "graft/api/llm.h"
#include "graft/cli/options/rule_options.h"

namespace graft::cli {

// -m PATH|NAME, and where names are looked up.
struct ModelChoice {
  std::string text;  // empty: the bundled model
  std::vector<std::string> folders;

  // `place`: also the command's argument of that name, "MODEL".
  CLI::Option* add_to(CLI::App& command, const std::string& place = "");
  static void add_folders_to(CLI::App& command, std::vector<std::string>& folders);

  api::Catalog catalog() const;
  std::filesystem::path path() const { return catalog().find(text); }  // throws Error
};

struct ModelOptions {
  ModelChoice model;
  std::string rules;   // empty: the default of the model's family
  std::string device;  // empty: by rules
  PluginOptions plugins;
  std::size_t threads = 0;
  std::string processors;  // a list; empty: threads are not pinned
  std::string memory;      // "64G"
  bool no_repack = false;
  bool repack_cache = false;

  void add_to(CLI::App& command);
  void add_all_but_model_to(CLI::App& command);
  api::LlmConfig config() const;
  // Loads the model; on a terminal a bar on standard error says how far it is.
  std::unique_ptr<api::LLM> open(api::LlmConfig config) const;
};

}  // namespace graft::cli
