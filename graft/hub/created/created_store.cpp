#include "graft/hub/created/created_store.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"
#include "graft/hub/model_ref.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

ModelRef created_ref(std::string_view name) {
  ModelRef ref = parse_ollama_name(name);
  if (ref.source != Source::Ollama)
    fail(name, ": a name of a hub; expected MODEL[:TAG] or NAMESPACE/MODEL[:TAG]");
  return ref;
}

}  // namespace

std::string created_name(std::string_view name) {
  constexpr std::string_view kPrefix = "ollama:";
  return to_string(created_ref(name)).substr(kPrefix.size());
}

fs::path CreatedStore::path_of(std::string_view name) const {
  if (folder_.empty()) fail("no folder for models: set HOME or XDG_DATA_HOME");
  const ModelRef ref = created_ref(name);
  return folder_ / ref.repo / (ref.selector + formats::kCreatedModelExtension);
}

std::vector<CreatedStore::Entry> CreatedStore::list() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator
           it(folder_, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (!formats::is_created_model(it->path())) continue;
    try {
      entries.push_back({.model = formats::read_created_model(it->path()), .path = it->path()});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // Not a created model.
    }
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) { return entry.model.name; });
  return entries;
}

std::optional<CreatedStore::Entry> CreatedStore::find(std::string_view name) const {
  if (folder_.empty()) return std::nullopt;
  const fs::path path = path_of(name);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  return Entry{.model = formats::read_created_model(path), .path = path};
}

std::vector<std::string> CreatedStore::users_of(const fs::path& weights) const {
  std::vector<std::string> names;
  for (const Entry& entry : list()) {
    if (entry.model.weights == weights) names.push_back(entry.model.name);
  }
  return names;
}

fs::path CreatedStore::write(const formats::CreatedModel& model) const {
  fs::path path = path_of(model.name);
  std::error_code error;
  if (!fs::exists(path, error) && list().size() >= kMaxModels)
    fail(model.name, ": there are ", kMaxModels, " created models already, the max");
  fs::create_directories(path.parent_path(), error);
  if (error) fail(path.parent_path().string(), ": cannot be created: ", error.message());
  const std::string text = formats::created_model_text(model);
  NewFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
  return path;
}

bool CreatedStore::remove(std::string_view name) const {
  const fs::path path = path_of(name);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (!fs::remove(path, error)) fail(path.string(), ": cannot be removed: ", error.message());
  fs::remove(path.parent_path(), error);  // only when it is empty
  return true;
}

}  // namespace graft::hub
