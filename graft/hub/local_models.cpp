#include "graft/hub/local_models.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/hub/created/created_store.h"
#include "graft/hub/hf_cache.h"
#include "graft/hub/model_ref.h"
#include "graft/hub/ollama_store.h"
#include "graft/hub/pull.h"
#include "graft/hub/remote_files.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 4;  // LM Studio: publisher/repository/file

// The last word of the name that is a type of GGUF files: "Q4_K_M" of "m-Q4_K_M"; empty: none.
std::string type_in(const std::string& name) {
  const std::string type = name.substr(name.find_last_of("-.") + 1);
  const std::string lower = lower_case(type);
  const auto begins = [&](const char* prefix, std::size_t size) {
    return lower.starts_with(prefix) && lower.size() > size && lower[size] >= '0' &&
           lower[size] <= '9';
  };
  const bool is_type = begins("q", 1) || begins("iq", 2) || begins("tq", 2) || lower == "f16" ||
                       lower == "bf16" || lower == "f32" || lower.starts_with("mxfp4");
  return is_type ? type : "";
}

// Every complete GGUF model among the files, by its first part.
std::vector<ChosenFiles> gguf_models(const std::vector<RemoteFile>& files) {
  std::vector<ChosenFiles> models;
  std::set<std::string> seen;
  for (const RemoteFile& file : files) {
    if (!file.path.ends_with(".gguf")) continue;
    try {
      ChosenFiles chosen = choose_files(files, file.path, "");
      const std::string lower = lower_case(fs::path(chosen.main).filename().string());
      if (lower.starts_with("mmproj") || lower.find("imatrix") != std::string::npos) continue;
      if (seen.insert(chosen.main).second) models.push_back(std::move(chosen));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // Parts are missing.
    }
  }
  return models;
}

void add_hf_repo(const Environment& env, const std::string& repo, std::vector<LocalModel>& out) {
  const HfCache cache(env.hf_cache, repo);
  const std::string commit = cache.commit_of("main");
  if (commit.empty()) return;
  const std::vector<RemoteFile> files = cache.files_of(commit);
  const fs::path snapshot = cache.snapshot(commit);
  std::map<std::string, int> num_of_type;
  const std::vector<ChosenFiles> models = gguf_models(files);
  for (const ChosenFiles& model : models)
    ++num_of_type[type_in(gguf_name(model.main))];
  for (const ChosenFiles& model : models) {
    const std::string type = type_in(gguf_name(model.main));
    const bool is_unique = !type.empty() && num_of_type[type] == 1;
    out.push_back({.name = str(repo, ":", is_unique ? type : model.main),
                   .path = snapshot / model.main,
                   .bytes = model.bytes(),
                   .origin = "Hugging Face cache"});
  }
  if (!is_complete_folder(snapshot)) return;
  std::uint64_t bytes = 0;
  for (const RemoteFile& file : files) {
    if (file.path.ends_with(".safetensors")) bytes += file.size;
  }
  out.push_back({.name = repo, .path = snapshot, .bytes = bytes, .origin = "Hugging Face cache"});
}

void add_ollama(const fs::path& folder, const char* origin, std::vector<LocalModel>& out) {
  const OllamaStore store(folder);
  for (const OllamaStore::Entry& entry : store.list()) {
    const OllamaLayer* model = entry.manifest.find("model");
    std::error_code error;
    if (model == nullptr || !fs::exists(store.blob_path(model->digest), error)) continue;
    out.push_back({.name = entry.name,
                   .path = store.blob_path(model->digest),
                   .bytes = model->size,
                   .origin = origin});
  }
}

// GGUF files and Hugging Face folders below a folder.
void add_folder(const fs::path& root, const char* origin, std::vector<LocalModel>& out) {
  std::vector<RemoteFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator
           it(root, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (it.depth() >= kMaxDepth) it.disable_recursion_pending();
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      std::uint64_t bytes = 0;
      for (const fs::directory_entry& file : fs::directory_iterator(it->path(), ignored)) {
        if (file.path().extension() == ".safetensors") bytes += file.file_size(ignored);
      }
      if (bytes == 0 || !is_complete_folder(it->path())) continue;
      out.push_back({.name = it->path().filename().string(),
                     .path = it->path(),
                     .bytes = bytes,
                     .origin = origin});
    } else if (it->path().extension() == ".gguf" && it->is_regular_file(ignored)) {
      files.push_back(
          {.path = it->path().lexically_relative(root).string(), .size = it->file_size(ignored)});
    }
  }
  for (const ChosenFiles& model : gguf_models(files)) {
    out.push_back({.name = gguf_name(model.main),
                   .path = root / model.main,
                   .bytes = model.bytes(),
                   .origin = origin});
  }
}

void add_created(const Environment& env, std::vector<LocalModel>& out) {
  for (const CreatedStore::Entry& entry : CreatedStore(env.created).list()) {
    std::error_code error;
    const bool is_file = fs::is_regular_file(entry.model.weights, error);
    if (!is_file && !is_complete_folder(entry.model.weights)) continue;
    out.push_back({.name = entry.model.name,
                   .path = entry.path,
                   .bytes = is_file ? fs::file_size(entry.model.weights, error) : 0,
                   .origin = "created"});
  }
}

// Created models would lose their weights.
void check_unused(const std::string& name, const fs::path& weights, const Environment& env) {
  const std::vector<std::string> users = CreatedStore(env.created).users_of(weights);
  if (!users.empty()) {
    fail(name, ": its weights are used by the created model ", users.front(),
         users.size() > 1 ? str(" and ", users.size() - 1, " more") : "",
         "; remove created models first");
  }
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return !folder.empty() &&
         path.lexically_normal().string().starts_with(folder.lexically_normal().string() + "/");
}

std::uint64_t remove_file(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!fs::remove(path, error)) fail(path.string(), ": cannot be removed: ", error.message());
  return size;
}

// A file with all its parts, or a folder, in graft's own folder.
std::uint64_t remove_files(const fs::path& path) {
  std::error_code error;
  std::uint64_t bytes = 0;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.is_regular_file(error)) bytes += entry.file_size(error);
    }
    fs::remove_all(path, error);
    if (error) fail(path.string(), ": cannot be removed: ", error.message());
    return bytes;
  }
  const std::string name = gguf_name(path.filename().string());
  std::vector<fs::path> parts;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), error)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(".gguf") && gguf_name(file) == name) parts.push_back(entry.path());
  }
  for (const fs::path& part : parts)
    bytes += remove_file(part);
  return bytes;
}

// The files of one model, or of the whole repository without a selector.
std::uint64_t remove_hf(const ModelRef& ref, const Environment& env) {
  const HfCache cache(env.hf_cache, ref.repo);
  std::vector<std::string> paths;
  for (const std::string& commit : cache.commits()) {
    std::vector<RemoteFile> files = cache.files_of(commit);
    if (!ref.selector.empty()) files = choose_files(files, ref.selector, ref.repo).files;
    for (const RemoteFile& file : files)
      paths.push_back(file.path);
  }
  if (paths.empty()) fail(to_string(ref), ": not in ", env.hf_cache.string());
  return cache.remove(paths);
}

std::uint64_t remove_ollama(const ModelRef& ref, const Environment& env) {
  const OllamaStore store(env.ollama_store);
  const auto manifest = store.find(ref);
  if (!store.remove(ref)) fail(to_string(ref), ": not in ", env.ollama_store.string());
  std::uint64_t bytes = 0;
  std::error_code error;
  if (manifest) {
    for (const OllamaLayer& layer : manifest->layers)
      bytes += fs::exists(store.blob_path(layer.digest), error) ? 0 : layer.size;
  }
  return bytes;
}

}  // namespace

std::vector<LocalModel> find_local_models(const Environment& env) {
  std::vector<LocalModel> models;
  if (!env.hf_cache.empty()) {
    for (const std::string& repo : cached_repos(env.hf_cache))
      add_hf_repo(env, repo, models);
  }
  add_created(env, models);
  for (const fs::path& folder : ollama_stores(env))
    add_ollama(folder, "Ollama", models);
  if (!env.home.empty()) {
    add_folder(env.home / ".lmstudio/models", "LM Studio", models);
    add_folder(env.home / ".cache/lm-studio/models", "LM Studio", models);
    add_folder(env.home / ".ktransformers/models", "KTransformers", models);
  }
  const char* llama_cache = std::getenv("LLAMA_CACHE");
  if (llama_cache != nullptr || !env.cache.empty()) {
    add_folder(llama_cache != nullptr ? fs::path(llama_cache) : env.cache / "llama.cpp",
               "llama.cpp", models);
  }
  std::ranges::stable_sort(models, [](const LocalModel& a, const LocalModel& b) {
    return std::pair(a.origin, a.name) < std::pair(b.origin, b.name);
  });
  return models;
}

std::uint64_t remove_model(const std::string& name, const Environment& env) {
  const std::vector<LocalModel> local = find_local_models(env);
  const auto is_named = [&](const LocalModel& model) {
    return equal_ignoring_case(model.name, name) ||
           equal_ignoring_case(model.name, name + ":latest");
  };
  const auto named = std::ranges::find_if(local, is_named);
  if (named != local.end() && named->origin == "created") {
    CreatedStore(env.created).remove(named->name);
    return 0;
  }
  if (named != local.end()) check_unused(name, named->path, env);
  if (const auto ref = parse_model_ref(name)) {
    if (ref->source == Source::HuggingFace) return remove_hf(*ref, env);
    if (ref->source == Source::Ollama) return remove_ollama(*ref, env);
    const auto path = find_pulled(*ref, env);
    if (!path) fail(name, ": not downloaded");
    check_unused(name, *path, env);
    return remove_files(*path);
  }
  for (const LocalModel& model : local) {
    if (!is_named(model)) continue;
    if (model.origin != "Ollama" || !is_below(model.path, env.ollama_store))
      fail(name, ": belongs to ", model.origin, " (", model.path.string(), "); remove it there");
    return remove_ollama(parse_ollama_name(model.name), env);
  }
  std::vector<LocalModel> own;
  if (!env.models.empty()) add_folder(env.models, "graft", own);
  for (const LocalModel& model : own) {
    if (!equal_ignoring_case(model.name, name)) continue;
    check_unused(name, model.path, env);
    return remove_files(model.path);
  }
  fail(name, ": no such model among those that `graft models` lists with a source");
}

}  // namespace graft::hub
