#include "graft/cli/options/settings.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>

#include <CLI/App.hpp>
#include <yaml-cpp/yaml.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSettings = {
    SettingInfo{"model", "sprout (bundled)"},
    SettingInfo{"model-dir", "~/.local/share/graft/models"},
    SettingInfo{"rules", "chosen for model and machine"},
    SettingInfo{"device", "chosen for model and machine"},
    SettingInfo{"host", "127.0.0.1"},
    SettingInfo{"port", "8000"},
    SettingInfo{"threads", "one per core"},
    SettingInfo{"cpu-list", "not pinned"},
    SettingInfo{"no-repack", "false"},
    SettingInfo{"repack-cache", "false"},
    SettingInfo{"memory", "the free memory"},
    SettingInfo{"max-model-len", "the model's context length"},
    SettingInfo{"chunk-prefill", "2048"},
    SettingInfo{"kv-host", "0"},
    SettingInfo{"kv-disk", "0"},
    SettingInfo{"kv-dir", "~/.cache/graft/kv"},
    SettingInfo{"chat-template", "the model's"},
    SettingInfo{"system", "none"},
    SettingInfo{"temperature", "the model's, else 0.6"},
    SettingInfo{"top-p", "the model's, else 0.95"},
    SettingInfo{"top-k", "the model's, else off"},
    SettingInfo{"min-p", "off"},
    SettingInfo{"seed", "random"},
    SettingInfo{"max-new-tokens", "unlimited"},
    SettingInfo{"think", "decided by the model"},
    SettingInfo{"stats", "false"},
    SettingInfo{"no-markdown", "false"},
    SettingInfo{"full-context", "drop"},
};

std::string lower_with_hyphens(std::string_view text) {
  std::string out(text);
  std::ranges::replace(out, '_', '-');
  return out;
}

bool is_known(std::string_view name) {
  return std::ranges::find(kSettings, name, &SettingInfo::name) != kSettings.end();
}

std::string variable_of(std::string_view name) {
  std::string out = "GRAFT_";
  for (const char c : name)
    out += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string known_names() {
  std::string names;
  for (const SettingInfo& setting : kSettings)
    names.append(names.empty() ? "" : ", ").append(setting.name);
  return names;
}

std::string value_of(const YAML::Node& node, const std::string& where) {
  if (node.IsScalar()) return node.Scalar();
  if (!node.IsSequence()) fail(where, ": expected a value or a list of values");
  std::string joined;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) fail(where, ": expected a list of plain values");
    joined += (joined.empty() ? "" : ",") + item.Scalar();
  }
  return joined;
}

}  // namespace

std::span<const SettingInfo> known_settings() {
  return kSettings;
}

Settings::Settings(const fs::path& file) {
  read_file(file);
  read_environment();
}

const Setting* Settings::find(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void Settings::read_file(const fs::path& file) {
  std::error_code error;
  if (file.empty() || !fs::exists(file, error)) return;
  YAML::Node root;
  try {
    root = YAML::LoadFile(file.string());
  } catch (const YAML::ParserException& parse) {
    fail(file.string(), ":", parse.mark.line + 1, ": ", parse.msg);
  } catch (const YAML::Exception& broken) {
    fail(file.string(), ": ", broken.what());
  }
  if (root.IsNull()) return;
  if (!root.IsMap()) fail(file.string(), ":1: expected lines like \"threads: 8\"");
  for (const auto& entry : root) {
    const std::string where = str(file.string(), ":", entry.first.Mark().line + 1);
    const std::string name = lower_with_hyphens(value_of(entry.first, where));
    if (!is_known(name))
      fail(where, ": unknown setting \"", name, "\"; expected one of ", known_names());
    values_[name] = {.value = value_of(entry.second, where), .origin = where};
  }
}

void Settings::read_environment() {
  for (const SettingInfo& setting : kSettings) {
    const std::string variable = variable_of(setting.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    Setting& found = values_[std::string(setting.name)];
    found = {.value = value, .origin = variable};
    // Folders are separated by colons in environment variables, as in PATH.
    if (setting.name == "model-dir") std::ranges::replace(found.value, ':', ',');
  }
}

void Settings::apply(Command& program) const {
  apply_to_app(program.app());
}

void Settings::apply_to_app(CLI::App& app) const {
  for (CLI::App* command : app.get_subcommands({})) {
    for (const auto& [name, setting] : values_) {
      CLI::Option* option = command->get_option_no_throw("--" + name);
      if (option == nullptr) continue;
      try {
        option->run_callback_for_default()->default_val(setting.value);
      } catch (const CLI::Error& error) {
        fail(setting.origin, ": ", name, ": \"", setting.value, "\": ", error.what());
      }
    }
    apply_to_app(*command);
  }
}

fs::path settings_file() {
  const char* chosen = std::getenv("GRAFT_CONFIG");
  if (chosen != nullptr && *chosen != '\0') {
    std::error_code error;
    if (!fs::exists(chosen, error)) fail("GRAFT_CONFIG: ", chosen, ": no such file");
    return chosen;
  }
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? folder : folder / "graft.yaml";
}

fs::path user_folder(const char* variable, const char* fallback) {
  const char* chosen = std::getenv(variable);
  if (chosen != nullptr && *chosen != '\0') return fs::path(chosen) / "graft";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return {};
  return fs::path(home) / fallback / "graft";
}

}  // namespace graft::cli
