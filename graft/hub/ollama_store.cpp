#include "graft/hub/ollama_store.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/system/new_file.h"
#include "graft/base/text/json.h"
#include "graft/hub/fields.h"
#include "graft/hub/file_hash.h"

namespace graft::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLayers = 256;
constexpr std::uintmax_t kMaxManifestBytes = 4U << 20U;
constexpr std::uintmax_t kMaxTextBytes = 16U << 20U;

std::string read_text(const fs::path& path, std::uintmax_t max_bytes) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) fail(path.string(), ": ", error.message());
  if (size > max_bytes) fail(path.string(), ": ", size, " bytes, max ", max_bytes);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& path, std::string_view text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail(path.parent_path().string(), ": cannot be created: ", error.message());
  NewFile file(path);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

OllamaLayer parse_layer(const Json& json, const std::string& where) {
  OllamaLayer layer = {.media_type = string_field(json, "mediaType", where),
                       .digest = string_field(json, "digest", where),
                       .size = size_field(json, "size", where)};
  constexpr std::string_view kPrefix = "sha256:";
  const bool is_digest =
      layer.digest.starts_with(kPrefix) &&
      sha256_or_none(std::string_view(layer.digest).substr(kPrefix.size())).hex ==
          layer.digest.substr(kPrefix.size()) &&
      layer.digest.size() > kPrefix.size();
  if (!is_digest) fail(where, ": invalid digest '", layer.digest, "'");
  return layer;
}

Json layer_json(const OllamaLayer& layer) {
  return {{"mediaType", layer.media_type}, {"digest", layer.digest}, {"size", layer.size}};
}

// "llama3.2:1b" for library models, else with namespace, and host where it is not Ollama's.
std::string name_of(const fs::path& relative) {
  std::vector<std::string> parts;
  for (const fs::path& part : relative)
    parts.push_back(part.string());
  if (parts.size() != 4) return {};
  std::string name = str(parts[2], ":", parts[3]);
  const bool is_library = parts[0] == kOllamaHost && parts[1] == "library";
  if (!is_library) name.insert(0, parts[1] + "/");
  if (parts[0] != kOllamaHost) name.insert(0, parts[0] + "/");
  return name;
}

std::set<std::string> digests_of(const OllamaManifest& manifest) {
  std::set<std::string> digests;
  for (const OllamaLayer& layer : manifest.layers)
    digests.insert(layer.digest);
  digests.insert(manifest.config.digest);
  return digests;
}

}  // namespace

std::string ollama_media_type(std::string_view kind) {
  return str("application/vnd.ollama.image.", kind);
}

const OllamaLayer* OllamaManifest::find(std::string_view kind) const {
  const auto found = std::ranges::find(layers, ollama_media_type(kind), &OllamaLayer::media_type);
  return found == layers.end() ? nullptr : &*found;
}

std::uint64_t OllamaManifest::bytes() const {
  std::uint64_t sum = config.size;
  for (const OllamaLayer& layer : layers)
    sum += layer.size;
  return sum;
}

OllamaManifest parse_ollama_manifest(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where);
  OllamaManifest manifest = {.text = std::string(text)};
  const Json& layers = array_field(json, "layers", where);
  if (layers.size() > kMaxLayers) fail(where, ": ", layers.size(), " layers, max ", kMaxLayers);
  for (const Json& layer : layers)
    manifest.layers.push_back(parse_layer(layer, where));
  if (!json.contains("config")) fail(where, ": field 'config' is missing");
  manifest.config = parse_layer(json["config"], where);
  return manifest;
}

OllamaManifest make_ollama_manifest(const OllamaLayer& config, std::vector<OllamaLayer> layers) {
  Json list = Json::array();
  for (const OllamaLayer& layer : layers)
    list.push_back(layer_json(layer));
  const Json json = {{"schemaVersion", 2},
                     {"mediaType", "application/vnd.docker.distribution.manifest.v2+json"},
                     {"config", layer_json(config)},
                     {"layers", list}};
  return {.text = json.dump(), .config = config, .layers = std::move(layers)};
}

fs::path OllamaStore::blob_path(const std::string& digest) const {
  std::string name = digest;
  std::ranges::replace(name, ':', '-');
  return folder_ / "blobs" / name;
}

fs::path OllamaStore::manifest_path(const ModelRef& ref) const {
  return folder_ / "manifests" / kOllamaHost / ref.repo / ref.selector;
}

std::vector<OllamaStore::Entry> OllamaStore::list() const {
  std::vector<Entry> entries;
  const fs::path root = folder_ / "manifests";
  std::error_code error;
  for (fs::recursive_directory_iterator
           it(root, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const fs::path& path = it->path();
    std::string name = name_of(path.lexically_relative(root));
    if (name.empty()) continue;
    try {
      entries.push_back(
          {.name = std::move(name),
           .manifest = parse_ollama_manifest(read_text(path, kMaxManifestBytes), path.string()),
           .manifest_path = path});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // Not a manifest.
    }
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

std::optional<OllamaManifest> OllamaStore::find(const ModelRef& ref) const {
  const fs::path path = manifest_path(ref);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  OllamaManifest manifest =
      parse_ollama_manifest(read_text(path, kMaxManifestBytes), path.string());
  const bool is_complete = std::ranges::all_of(manifest.layers, [&](const OllamaLayer& layer) {
    return fs::file_size(blob_path(layer.digest), error) == layer.size && !error;
  });
  if (!is_complete) return std::nullopt;
  return manifest;
}

std::string OllamaStore::layer_text(const OllamaManifest& manifest, std::string_view kind) const {
  const OllamaLayer* layer = manifest.find(kind);
  return layer == nullptr ? "" : read_text(blob_path(layer->digest), kMaxTextBytes);
}

OllamaLayer OllamaStore::add_blob(std::string_view kind, std::string_view content) const {
  OllamaLayer layer = {.media_type = ollama_media_type(kind),
                       .digest = str("sha256:", sha256_of(content)),
                       .size = content.size()};
  const fs::path path = blob_path(layer.digest);
  std::error_code error;
  if (!fs::exists(path, error)) write_text(path, content);
  return layer;
}

void OllamaStore::write_manifest(const ModelRef& ref, const OllamaManifest& manifest) const {
  write_text(manifest_path(ref), manifest.text);
}

bool OllamaStore::remove(const ModelRef& ref) const {
  const fs::path path = manifest_path(ref);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::set<std::string> unused =
      digests_of(parse_ollama_manifest(read_text(path, kMaxManifestBytes), path.string()));
  fs::remove(path, error);
  if (error) fail(path.string(), ": cannot be removed: ", error.message());
  for (const Entry& entry : list()) {
    for (const std::string& digest : digests_of(entry.manifest))
      unused.erase(digest);
  }
  for (const std::string& digest : unused)
    fs::remove(blob_path(digest), error);
  // Empty folders of the name, up to the host.
  fs::remove(path.parent_path(), error);
  return true;
}

}  // namespace graft::hub
