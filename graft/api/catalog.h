// The models on this machine by name: what comes with graft, and what lies in the user's folders.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace graft::api {

struct ModelEntry {
  std::string name;            // "sprout", "DeepSeek-V3-Q4_K_M": the file's or folder's own
  std::filesystem::path path;  // a GGUF file (the first of a split one) or a Hugging Face folder
  std::uint64_t bytes = 0;     // of its files
  bool bundled = false;
};

class Catalog {
 public:
  // Folders are searched two levels deep, as people keep models: folder/model/file.gguf. One that
  // is not there is like an empty one.
  explicit Catalog(std::vector<std::filesystem::path> folders = {});

  // Bundled ones first, then by name; the first of equal names. Files are looked at by name only.
  std::vector<ModelEntry> list() const;

  // A path to itself, a folder with one GGUF model inside to that model, a name (whatever its case)
  // to its path, "" to the bundled model. Throws Error that says which names there are.
  std::filesystem::path find(const std::string& path_or_name) const;

 private:
  std::vector<std::filesystem::path> folders_;
};

// Where bundled models lie: $GRAFT_MODELS_DIR, else share/graft/models of the installation, else
// models/ of the source tree. Throws Error.
std::filesystem::path bundled_models_folder();

inline constexpr const char* kBundledModel = "sprout";

}  // namespace graft::api
