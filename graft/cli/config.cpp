// graft config: prints the settings in effect and the origin of each.

#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "graft/base/text/json.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/settings.h"
#include "graft/cli/terminal.h"

namespace graft::cli {
namespace {

void print_json(const Settings& settings) {
  Json json = {{"file", settings_file().string()}, {"settings", Json::object()}};
  for (const SettingInfo& info : known_settings()) {
    const Setting* setting = settings.find(info.name);
    Json& entry = json["settings"][std::string(info.name)];
    entry["value"] = setting == nullptr ? Json() : Json(setting->value);
    entry["origin"] = setting == nullptr ? "default" : setting->origin;
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Settings& settings) {
  for (const SettingInfo& info : known_settings()) {
    const Setting* setting = settings.find(info.name);
    if (setting == nullptr) {
      fmt::print("{:<16} {}\n", info.name, tinted(Tint::Dim, info.unset, stdout));
    } else {
      fmt::print("{:<16} {:<24} {}\n", info.name, setting->value,
                 tinted(Tint::Dim, "from " + setting->origin, stdout));
    }
  }
  fmt::print(
      "\nSet values in {} (\"threads: 8\"),\n"
      "in the environment (GRAFT_THREADS=8) or with flags (--threads 8). Flags override the\n"
      "environment, the environment overrides the file.\n",
      settings_file().string());
}

}  // namespace

void add_config(Command& app) {
  Command* command =
      app.add_subcommand("config", "Print the settings in effect and where they are set");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json] {
    const Settings settings(settings_file());
    if (*json) {
      print_json(settings);
    } else {
      print_text(settings);
    }
  });
}

}  // namespace graft::cli
