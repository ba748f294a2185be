// The models on this machine by name: bundled ones and those in the user's folders.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graft::api {

struct ModelEntry {
  std::string name;            // "sprout", "DeepSeek-V3-Q4_K_M": the name of the file or folder
  std::filesystem::path path;  // a GGUF file (the first of its shards) or a Hugging Face folder
  std::uint64_t bytes = 0;     // total size of the weight files
  bool bundled = false;
  std::string origin = {};  // the program that downloaded it; empty: a folder of the user
};

class Catalog {
 public:
  // Folders are searched two levels deep (folder/model/file.gguf). Missing folders are ignored.
  // `more` returns further models, after those of the folders; empty: none.
  explicit Catalog(std::vector<std::filesystem::path> folders = {},
                   std::function<std::vector<ModelEntry>()> more = {});

  // Bundled models first, then sorted by name; duplicate names are listed once. Files are not
  // opened.
  std::vector<ModelEntry> list() const;
  // The model of this name (ignoring case); nullopt: none.
  std::optional<std::filesystem::path> find_name(const std::string& name) const;

  // Resolves a path to itself, a folder with a single GGUF model to that model, a name (ignoring
  // case) to its path, and "" to the bundled model. Throws Error that lists the available names.
  std::filesystem::path find(const std::string& path_or_name) const;

 private:
  std::vector<std::filesystem::path> folders_;
  std::function<std::vector<ModelEntry>()> more_;
};

// The folder of bundled models: $GRAFT_MODELS_DIR, else share/graft/models of the installation,
// else models/ of the source tree. Throws Error.
std::filesystem::path bundled_models_folder();

inline constexpr const char* kBundledModel = "sprout";

}  // namespace graft::api
