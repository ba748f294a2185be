// User settings: defaults of flags, from graft.yaml and GRAFT_* environment variables. Flags
// override the environment, the environment overrides the file. A setting applies to every command
// that has a flag of that name.

#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "graft/cli/command.h"

namespace graft::cli {

struct SettingInfo {
  std::string_view name;   // as the flag: "max-new-tokens"
  std::string_view unset;  // description of the default
};

std::span<const SettingInfo> known_settings();

struct Setting {
  std::string value;   // lists are joined by commas
  std::string origin;  // "…/graft.yaml:3" or "GRAFT_THREADS"
};

class Settings {
 public:
  // Reads the file (a missing file is empty) and the environment. Throws Error with the line of an
  // invalid key or value.
  explicit Settings(const std::filesystem::path& file);

  const Setting* find(std::string_view name) const;  // null: not set

  // Sets the defaults of the flags of that name in all commands and subcommands. Throws Error that
  // begins with the origin for a value that a flag rejects.
  void apply(Command& program) const;

 private:
  void apply_to_app(CLI::App& app) const;
  void read_file(const std::filesystem::path& file);
  void read_environment();

  std::map<std::string, Setting, std::less<>> values_;
};

// $GRAFT_CONFIG, which must exist, else graft.yaml in $XDG_CONFIG_HOME/graft or ~/.config/graft.
// Never in the working directory: its settings could name a rule file that loads plugins.
std::filesystem::path settings_file();

// $VARIABLE/graft, else $HOME/FALLBACK/graft; empty without $HOME.
std::filesystem::path user_folder(const char* variable, const char* fallback);

}  // namespace graft::cli
