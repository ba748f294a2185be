// What people set once instead of typing it every time: a value of graft.yaml, then of a GRAFT_*
// variable, then of a flag; the later wins. A setting is the flag of that name, in every command
// that has it.

#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <CLI/App.hpp>

namespace graft::cli {

struct SettingInfo {
  std::string_view name;   // as the flag: "max-new-tokens"
  std::string_view unset;  // what holds when nobody sets it, in words
  std::string_view meaning;
};

std::span<const SettingInfo> known_settings();

struct Setting {
  std::string value;   // lists: joined by commas
  std::string origin;  // "…/graft.yaml:3" or "GRAFT_THREADS"
};

class Settings {
 public:
  // Reads the file (a missing one is empty) and the environment. Throws Error that names the line
  // of a key or value that makes no sense.
  explicit Settings(const std::filesystem::path& file);

  const Setting* find(std::string_view name) const;  // null: not set

  // Makes the values the defaults of the flags of that name, in the program's commands and theirs.
  // Throws Error (subject: the origin) for a value that a flag does not take.
  void apply(CLI::App& app) const;

 private:
  void read_file(const std::filesystem::path& file);
  void read_environment();

  std::map<std::string, Setting, std::less<>> values_;
};

// $GRAFT_CONFIG, else graft.yaml in $XDG_CONFIG_HOME/graft or ~/.config/graft. Never the folder one
// happens to be in: a rule file may load plugins, and a folder may come from strangers.
std::filesystem::path settings_file();

// A folder of the user's own: $VARIABLE/graft, else $HOME/FALLBACK/graft. Empty without a home.
std::filesystem::path user_folder(const char* variable, const char* fallback);

}  // namespace graft::cli
