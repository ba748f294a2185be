// graft models: lists the bundled model, those in the user's folders, and those that graft or other
// programs have downloaded.

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/base/system/system.h"
#include "graft/base/text/json.h"
#include "graft/base/text/units.h"
#include "graft/cli/commands.h"
#include "graft/cli/options/model_options.h"
#include "graft/cli/parts.h"
#include "graft/cli/terminal.h"
#include "graft/models/families/family.h"
#include "graft/models/weights/checkpoint.h"

namespace graft::cli {
namespace {

// Facts from a model's header; its weights are not read.
struct Described {
  api::ModelEntry entry;
  std::string type = {};     // "deepseek_v3 Q6_K"
  std::string problem = {};  // why it cannot be loaded; empty: no problem
  bool fits = false;
};

Described describe(const api::ModelEntry& entry, std::uint64_t free) {
  Described model = {.entry = entry};
  model.fits = free == 0 || entry.bytes <= free;
  try {
    const auto source = models::open_checkpoint(entry.path);
    const models::Family* family = source->config().family;
    model.type = fmt::format("{} {}", family == nullptr ? "unknown" : family->model_type(),
                             type_text(*source));
  } catch (const Error& error) {
    model.problem = error.what();
  }
  return model;
}

std::string source_of(const api::ModelEntry& entry) {
  if (entry.bundled) return "bundled";
  return entry.origin.empty() ? "folder" : entry.origin;
}

Json to_json(const Described& model) {
  return {{"name", model.entry.name},
          {"path", model.entry.path.string()},
          {"bytes", model.entry.bytes},
          {"type", model.type},
          {"bundled", model.entry.bundled},
          {"source", source_of(model.entry)},
          {"fits", model.fits},
          {"problem", model.problem.empty() ? Json() : Json(model.problem)}};
}

void print(const Described& model) {
  const std::string verdict = !model.problem.empty() ? tinted(Tint::Red, model.problem, stdout)
                              : model.fits           ? tinted(Tint::Green, "fits", stdout)
                                           : tinted(Tint::Yellow, "exceeds free memory", stdout);
  fmt::print("{:<28} {:>10}  {:<20} {}  {}\n", model.entry.name, bytes_text(model.entry.bytes),
             model.type, verdict,
             tinted(Tint::Dim,
                    model.entry.origin.empty() && !model.entry.bundled ? model.entry.path.string()
                                                                       : source_of(model.entry),
                    stdout));
}

void list_models(const ModelChoice& choice, bool json) {
  const std::uint64_t free = available_memory();
  Json list = Json::array();
  for (const api::ModelEntry& entry : choice.catalog().list()) {
    const Described model = describe(entry, free);
    if (json) {
      list.push_back(to_json(model));
    } else {
      print(model);
    }
  }
  if (json) fmt::print("{}\n", list.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void add_models(Command& app) {
  struct Options {
    ModelChoice choice;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command* command = app.add_subcommand("models", "List the models that -m accepts by name");
  command->footer("Example:\n  graft models --model-dir /data/models");
  ModelChoice::add_folders_to(*command, options->choice.folders);
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] { list_models(options->choice, options->json); });
}

}  // namespace graft::cli
