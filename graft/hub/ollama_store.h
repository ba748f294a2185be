// Models in Ollama's layout: manifests/HOST/NAMESPACE/MODEL/TAG (JSON that lists layers) and
// blobs/sha256-HEX. The folder may be Ollama's own; its files are then shared.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/hub/model_ref.h"

namespace graft::hub {

struct OllamaLayer {
  std::string media_type = {};  // "application/vnd.ollama.image.model"
  std::string digest = {};      // "sha256:" and 64 lower-case hexadecimal digits
  std::uint64_t size = 0;
};

struct OllamaManifest {
  std::string text = {};  // as stored
  OllamaLayer config = {};
  std::vector<OllamaLayer> layers = {};

  // The first layer of this kind: "model", "template", "system", "params". Null: none.
  const OllamaLayer* find(std::string_view kind) const;
  std::uint64_t bytes() const;  // of all layers and the configuration
};

// Throws Error.
OllamaManifest parse_ollama_manifest(std::string_view text, const std::string& where);
// The manifest of these layers, with its text.
OllamaManifest make_ollama_manifest(const OllamaLayer& config, std::vector<OllamaLayer> layers);

inline constexpr const char* kOllamaHost = "registry.ollama.ai";

class OllamaStore {
 public:
  explicit OllamaStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Entry {
    std::string name;  // "llama3.2:1b", "user/model:tag", "hf.co/org/repo:Q4_K_M"
    OllamaManifest manifest;
    std::filesystem::path manifest_path;
  };
  // Sorted by name. Unreadable manifests are left out.
  std::vector<Entry> list() const;

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob_path(const std::string& digest) const;
  std::filesystem::path manifest_path(const ModelRef& ref) const;

  // nullopt: no such model, or one of its blobs is missing.
  std::optional<OllamaManifest> find(const ModelRef& ref) const;
  // The text of a small layer; empty when there is none of this kind. Throws Error.
  std::string layer_text(const OllamaManifest& manifest, std::string_view kind) const;

  // Stores a small blob and returns its layer.
  OllamaLayer add_blob(std::string_view media_kind, std::string_view content) const;
  // Makes the model visible: after its blobs.
  void write_manifest(const ModelRef& ref, const OllamaManifest& manifest) const;
  // Removes the manifest, and the blobs that no other manifest lists. False: no such model.
  bool remove(const ModelRef& ref) const;

 private:
  std::filesystem::path folder_;
};

// "application/vnd.ollama.image." and the kind.
std::string ollama_media_type(std::string_view kind);

}  // namespace graft::hub
