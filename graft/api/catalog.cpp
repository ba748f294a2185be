#include "graft/api/catalog.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/system/install_paths.h"
#include "graft/base/text/ascii.h"

namespace graft::api {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 2;  // levels of sub-folders

// The suffix "-00002-of-00007" of a sharded file's stem.
struct Shard {
  int number = 0;          // from 1; 0: not sharded
  std::size_t suffix = 0;  // length of the suffix, characters
};

Shard shard_of(const std::string& stem) {
  constexpr std::size_t kSuffix = 15;
  if (stem.size() <= kSuffix) return {};
  const std::string_view end = std::string_view(stem).substr(stem.size() - kSuffix);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool fits = end[0] == '-' && end.substr(6, 4) == "-of-" &&
                    std::ranges::all_of(end.substr(1, 5), is_digit) &&
                    std::ranges::all_of(end.substr(10), is_digit);
  if (!fits) return {};
  return {.number = std::stoi(std::string(end.substr(1, 5))), .suffix = kSuffix};
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

// A Hugging Face folder has config.json and safetensors files.
std::optional<ModelEntry> hf_model(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(folder / "config.json", error)) return std::nullopt;
  ModelEntry entry = {.name = folder.filename().string(), .path = folder};
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".safetensors") entry.bytes += size_of(file.path());
  }
  if (entry.bytes == 0) return std::nullopt;
  return entry;
}

// Appends the models of a folder and its sub-folders; unreadable entries are skipped.
void collect(const fs::path& folder, int depth, std::vector<ModelEntry>& out) {
  if (auto model = hf_model(folder)) {
    out.push_back(std::move(*model));
    return;
  }
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    paths.push_back(entry.path());
  std::ranges::sort(paths);  // shards in order
  for (const fs::path& path : paths) {
    if (fs::is_directory(path, error)) {
      if (depth > 0) collect(path, depth - 1, out);
      continue;
    }
    if (path.extension() != ".gguf") continue;
    const std::string stem = path.stem().string();
    const Shard shard = shard_of(stem);
    const std::string name = stem.substr(0, stem.size() - shard.suffix);
    if (shard.number > 1 && !out.empty() && out.back().name == name) {
      out.back().bytes += size_of(path);
    } else if (shard.number <= 1) {
      out.push_back({.name = name, .path = path, .bytes = size_of(path)});
    }
  }
}

std::vector<ModelEntry> models_in(const fs::path& folder) {
  std::vector<ModelEntry> models;
  collect(folder, kMaxDepth, models);
  return models;
}

// Bundled models are named after their folder, without the dtype of the file name.
std::vector<ModelEntry> bundled_models() {
  std::vector<ModelEntry> models = models_in(bundled_models_folder());
  for (ModelEntry& model : models) {
    model.name = model.path.parent_path().filename().string();
    model.bundled = true;
  }
  return models;
}

// A name that is taken already gets the folder of the model before it, else the whole path. The
// same file is listed once.
void separate_names(std::vector<ModelEntry>& models) {
  std::set<fs::path> paths;
  std::erase_if(models, [&](const ModelEntry& model) { return !paths.insert(model.path).second; });
  std::set<std::string> names;
  for (ModelEntry& model : models) {
    if (names.insert(model.name).second) continue;
    const std::string folder = model.path.parent_path().filename().string();
    model.name = folder + "/" + model.name;
    if (!names.insert(model.name).second) model.name = model.path.string();
  }
}

// Whether the user's text names the model, with or without ".gguf" and ":latest".
bool has_name(const ModelEntry& model, const std::string& text) {
  const std::string name = lower_case(model.name);
  const std::string wanted = lower_case(text);
  return name == wanted || name + ".gguf" == wanted || name == wanted + ":latest";
}

}  // namespace

fs::path bundled_models_folder() {
  return resource_dir("models", "GRAFT_MODELS_DIR");
}

Catalog::Catalog(std::vector<fs::path> folders, std::function<std::vector<ModelEntry>()> more)
    : folders_(std::move(folders)), more_(std::move(more)) {}

std::vector<ModelEntry> Catalog::list() const {
  std::vector<ModelEntry> models = bundled_models();
  const auto num_bundled = static_cast<std::ptrdiff_t>(models.size());
  for (const fs::path& folder : folders_) {
    for (ModelEntry& model : models_in(folder))
      models.push_back(std::move(model));
  }
  if (more_) {
    for (ModelEntry& model : more_())
      models.push_back(std::move(model));
  }
  std::stable_sort(models.begin() + num_bundled, models.end(),
                   [](const ModelEntry& a, const ModelEntry& b) { return a.name < b.name; });
  separate_names(models);
  return models;
}

std::optional<fs::path> Catalog::find_name(const std::string& name) const {
  for (const ModelEntry& model : list()) {
    if (has_name(model, name)) return model.path;
  }
  return std::nullopt;
}

fs::path Catalog::find(const std::string& path_or_name) const {
  std::error_code error;
  if (fs::is_directory(path_or_name, error) &&
      !fs::exists(fs::path(path_or_name) / "config.json")) {
    const std::vector<ModelEntry> inside = models_in(path_or_name);
    if (inside.size() == 1) return inside[0].path;
    if (inside.empty() && fs::exists(fs::path(path_or_name) / "adapter_config.json"))
      fail(path_or_name, ": a LoRA adapter, not a model; graft needs its base model");
    if (inside.empty())
      fail(path_or_name, ": no model in this folder: found neither config.json nor a GGUF file");
    fail(path_or_name, ": ", inside.size(),
         " models in this folder; give the path of one, such as ", inside[0].path.string());
  }
  if (!path_or_name.empty() && fs::exists(path_or_name, error)) return path_or_name;

  const std::string name = path_or_name.empty() ? kBundledModel : path_or_name;
  const std::vector<ModelEntry> models = list();
  for (const ModelEntry& model : models) {
    if (has_name(model, name)) return model.path;
  }
  std::string names;
  for (const ModelEntry& model : models)
    names += (names.empty() ? "" : ", ") + model.name;
  fail(name, ": no such file or folder, and no model of that name (available: ", names, ")");
}

}  // namespace graft::api
