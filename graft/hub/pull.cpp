#include "graft/hub/pull.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graft/base/error.h"
#include "graft/hub/hf_cache.h"
#include "graft/hub/hugging_face.h"
#include "graft/hub/modelscope.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

void need_folder(const fs::path& folder, const char* variable) {
  if (folder.empty()) fail("no folder for models: set HOME or ", variable);
}

// The folder itself for an empty name, without a slash at its end.
fs::path inside(const fs::path& folder, const std::string& file) {
  return file.empty() ? folder : folder / file;
}

std::string revision_or_main(const ModelRef& ref) {
  return ref.revision.empty() ? "main" : ref.revision;
}

RemoteModel look_up_hf(const ModelRef& ref, const Environment& env, HttpClient& client) {
  need_folder(env.hf_cache, "HF_HOME");
  RemoteRepo repo = list_hugging_face(client, env, ref);
  RemoteModel model = {.ref = ref, .commit = repo.commit};
  model.chosen = choose_files(repo.files, ref.selector, ref.repo);
  const HfCache cache(env.hf_cache, ref.repo);
  for (const RemoteFile& file : model.chosen.files) {
    if (file.hash.hex.empty()) fail(ref.repo, "/", file.path, ": the hub lists no hash");
    model.jobs.push_back({.subject = str(ref.repo, "/", file.path),
                          .url = hugging_face_url(env, ref, repo.commit, file.path),
                          .headers = hugging_face_headers(env),
                          .size = file.size,
                          .hash = file.hash,
                          .path = cache.blob_path(file),
                          .lock = cache.lock_path(file)});
  }
  model.path = inside(cache.snapshot(repo.commit), model.chosen.main);
  return model;
}

fs::path modelscope_folder(const ModelRef& ref, const Environment& env) {
  need_folder(env.models, "XDG_DATA_HOME");
  return env.models / ref.repo;
}

RemoteModel look_up_modelscope(const ModelRef& ref, const Environment& env, HttpClient& client) {
  const fs::path folder = modelscope_folder(ref, env);
  const RemoteRepo repo = list_modelscope(client, env, ref);
  RemoteModel model = {.ref = ref};
  model.chosen = choose_files(repo.files, ref.selector, to_string(ref));
  for (const RemoteFile& file : model.chosen.files) {
    model.jobs.push_back({.subject = str(to_string(ref), "/", file.path),
                          .url = modelscope_url(env, ref, file.path),
                          .headers = modelscope_headers(env),
                          .size = file.size,
                          .hash = file.hash,
                          .path = folder / file.path});
  }
  model.path = inside(folder, model.chosen.main);
  return model;
}

RemoteModel look_up_ollama(const ModelRef& ref, const Environment& env, HttpClient& client) {
  need_folder(env.ollama_store, "OLLAMA_MODELS");
  const HttpResponse response =
      client.get({.url = str(env.ollama_registry, "/v2/", ref.repo, "/manifests/", ref.selector),
                  .headers = {"Accept: application/vnd.docker.distribution.manifest.v2+json"}});
  check_status(response, to_string(ref));
  RemoteModel model = {.ref = ref};
  model.manifest = parse_ollama_manifest(response.body, to_string(ref));
  const OllamaLayer* weights = model.manifest.find("model");
  if (weights == nullptr) fail(to_string(ref), ": the manifest lists no model");
  const OllamaStore store(env.ollama_store);
  std::vector<OllamaLayer> layers = model.manifest.layers;
  layers.push_back(model.manifest.config);
  for (const OllamaLayer& layer : layers) {
    const ExpectedHash hash = sha256_or_none(layer.digest.substr(layer.digest.find(':') + 1));
    model.chosen.files.push_back({.path = layer.digest, .size = layer.size, .hash = hash});
    model.jobs.push_back(
        {.subject = str(to_string(ref), " ", layer.digest),
         .url = str(env.ollama_registry, "/v2/", ref.repo, "/blobs/", layer.digest),
         .size = layer.size,
         .hash = hash,
         .path = store.blob_path(layer.digest)});
  }
  model.chosen.main = weights->digest;
  model.path = store.blob_path(weights->digest);
  return model;
}

struct UrlParts {
  std::string before;  // scheme, host and folder with the last '/'
  std::string file;
  std::string after;  // query
};

UrlParts split_url(const std::string& url) {
  const std::size_t end = std::min(url.find_first_of("?#"), url.size());
  const std::size_t slash = url.rfind('/', end);
  UrlParts parts = {.before = url.substr(0, slash + 1),
                    .file = url.substr(slash + 1, end - slash - 1),
                    .after = url.substr(end)};
  if (!parts.file.ends_with(".gguf")) {
    fail(url, ": expected the URL of a .gguf file; name folders of safetensors as ORG/REPO");
  }
  check_remote_path(parts.file, url);
  return parts;
}

std::string host_of(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  std::string host = url.substr(begin, url.find_first_of("/?#", begin) - begin);
  host.erase(0, host.rfind('@') + 1);  // without a user name
  std::ranges::replace(host, ':', '_');
  if (host.empty()) fail(url, ": no host name");
  check_remote_path(host, url);
  return host;
}

// The names of all parts of a split file: all end in "-00001-of-00003.gguf".
std::vector<std::string> part_names(const std::string& file) {
  const std::string name = gguf_name(file);
  const std::string suffix = file.substr(name.size());
  if (suffix.size() != std::string_view("-00001-of-00003.gguf").size()) return {file};
  const int count = std::stoi(suffix.substr(10, 5));
  std::vector<std::string> names;
  for (int i = 1; i <= count; ++i)
    names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", name, i, count));
  return names;
}

// A server that proxies a hub repeats the hash in its headers.
ExpectedHash hash_in(const HttpResponse& response) {
  for (const char* name : {"x-linked-etag", "x-checksum-sha256"}) {
    const std::string text = response.header(name);
    const std::size_t begin = text.find_first_not_of('"');
    if (begin == std::string::npos) continue;
    ExpectedHash hash = sha256_or_none(text.substr(begin, text.find('"', begin) - begin));
    if (hash.kind != ExpectedHash::Kind::None) return hash;
  }
  return {};
}

RemoteModel look_up_url(const ModelRef& ref, const Environment& env, HttpClient& client) {
  need_folder(env.models, "XDG_DATA_HOME");
  const UrlParts parts = split_url(ref.repo);
  const fs::path folder = env.models / host_of(ref.repo);
  RemoteModel model = {.ref = ref};
  for (const std::string& name : part_names(parts.file)) {
    const std::string url = str(parts.before, name, parts.after);
    const HttpResponse response = client.get({.url = url,
                                              .range = ByteRange{.begin = 0, .end = 1},
                                              .sink = [](std::span<const std::byte>) {}});
    check_status(response, url);
    const std::uint64_t size = total_size(response);
    model.chosen.files.push_back({.path = name, .size = size, .hash = hash_in(response)});
    model.jobs.push_back({.subject = name,
                          .url = url,
                          .size = size,
                          .hash = model.chosen.files.back().hash,
                          .path = folder / name});
  }
  model.chosen.main = model.chosen.files.front().path;
  model.path = folder / model.chosen.main;
  return model;
}

std::optional<fs::path> find_modelscope(const ModelRef& ref, const Environment& env) {
  if (env.models.empty()) return std::nullopt;
  const fs::path folder = modelscope_folder(ref, env);
  std::vector<RemoteFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) {
      files.push_back(
          {.path = it->path().lexically_relative(folder).string(), .size = it->file_size(error)});
    }
  }
  try {
    const ChosenFiles chosen = choose_files(files, ref.selector, ref.repo);
    if (!chosen.main.empty()) return folder / chosen.main;
    if (is_complete_folder(folder)) return folder;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Not downloaded, or not completely.
  }
  return std::nullopt;
}

std::optional<fs::path> find_ollama(const ModelRef& ref, const Environment& env) {
  for (const fs::path& folder : ollama_stores(env)) {
    const OllamaStore store(folder);
    const auto manifest = store.find(ref);
    const OllamaLayer* layer = manifest ? manifest->find("model") : nullptr;
    if (layer != nullptr) return store.blob_path(layer->digest);
  }
  return std::nullopt;
}

std::optional<fs::path> find_url(const ModelRef& ref, const Environment& env) {
  if (env.models.empty()) return std::nullopt;
  const fs::path folder = env.models / host_of(ref.repo);
  const std::vector<std::string> names = part_names(split_url(ref.repo).file);
  std::error_code error;
  const bool has_all = std::ranges::all_of(
      names, [&](const std::string& name) { return fs::is_regular_file(folder / name, error); });
  if (!has_all) return std::nullopt;
  return folder / names.front();
}

// All files at once: a model that does not fit is known before the first hour.
void check_space(const RemoteModel& model, const DownloadOptions& options) {
  std::map<fs::path, std::uint64_t> needed;
  for (const DownloadJob& job : model.jobs) {
    std::error_code error;
    if (fs::is_regular_file(job.path, error)) continue;
    needed[job.path.parent_path()] += job.size - std::min(job.size, partial_bytes(job.path));
  }
  for (const auto& [folder, bytes] : needed)
    check_free_space(folder, bytes, to_string(model.ref), options);
}

}  // namespace

std::optional<fs::path> find_pulled(const ModelRef& ref, const Environment& env) {
  switch (ref.source) {
    case Source::HuggingFace:
      return HfCache(env.hf_cache, ref.repo).find(ref);
    case Source::ModelScope:
      return find_modelscope(ref, env);
    case Source::Ollama:
      return find_ollama(ref, env);
    case Source::Url:
      return find_url(ref, env);
  }
  return std::nullopt;
}

RemoteModel look_up(const ModelRef& ref, const Environment& env, const HttpConfig& http) {
  HttpConfig config = http;
  config.is_offline |= env.is_offline;
  HttpClient client(config);
  switch (ref.source) {
    case Source::ModelScope:
      return look_up_modelscope(ref, env, client);
    case Source::Ollama:
      return look_up_ollama(ref, env, client);
    case Source::Url:
      return look_up_url(ref, env, client);
    case Source::HuggingFace:
      break;
  }
  return look_up_hf(ref, env, client);
}

fs::path fetch(const RemoteModel& model, const Environment& env, const FetchOptions& options) {
  DownloadOptions download_options = options.download;
  download_options.http.is_offline |= env.is_offline;
  check_space(model, download_options);
  for (std::size_t i = 0; i < model.jobs.size(); ++i) {
    if (options.on_file) options.on_file(i);
    download(model.jobs[i], download_options);
  }
  if (options.on_finish) options.on_finish();
  if (model.ref.source == Source::HuggingFace) {
    HfCache(env.hf_cache, model.ref.repo)
        .link(model.commit, model.chosen.files, revision_or_main(model.ref));
  }
  if (model.ref.source == Source::Ollama)
    OllamaStore(env.ollama_store).write_manifest(model.ref, model.manifest);
  return model.path;
}

}  // namespace graft::hub
