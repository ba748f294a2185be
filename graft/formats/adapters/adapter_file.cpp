#include "graft/formats/adapters/adapter_file.h"

#include <utility>

#include "graft/base/error.h"
#include "graft/formats/gguf/gguf_file.h"
#include "graft/formats/safetensors/safetensors_file.h"

namespace graft::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20U;

class PeftFolder final : public AdapterFile {
 public:
  PeftFolder(const fs::path& path, const fs::path& folder)
      : AdapterFile(path), file_(weights_of(folder)) {
    const fs::path config_path = folder / "adapter_config.json";
    if (!fs::exists(config_path))
      fail(path.string(), ": not a LoRA adapter: the folder has no adapter_config.json");
    const PeftConfig config(read_json_file(config_path, kMaxConfigBytes), config_path.string());
    base_model_ = config.base_model();
    pairs_ = peft_pairs(config, file_.tensors(), file_.path().string());
  }

 private:
  static fs::path weights_of(const fs::path& folder) {
    fs::path weights = folder / "adapter_model.safetensors";
    if (fs::exists(weights)) return weights;
    if (fs::exists(folder / "adapter_model.bin")) {
      fail((folder / "adapter_model.bin").string(),
           ": a Python pickle; graft reads adapter_model.safetensors");
    }
    fail(folder.string(), ": not a LoRA adapter: the folder has no adapter_model.safetensors");
  }

  SafetensorsFile file_;
};

class GgufAdapter final : public AdapterFile {
 public:
  explicit GgufAdapter(const fs::path& path) : AdapterFile(path), file_(path) {
    const GgufMetadata& metadata = file_.metadata();
    is_gguf_ = true;
    architecture_ = metadata.string("general.architecture").value_or("");
    base_model_ = metadata.string("general.base_model.0.name").value_or("");
    pairs_ = gguf_pairs(metadata, file_.tensors(), path.string());
  }

 private:
  GgufFile file_;
};

}  // namespace

std::unique_ptr<AdapterFile> open_adapter(const fs::path& path) {
  try {
    if (!fs::exists(path)) fail(path.string(), ": no such file or folder");
    if (fs::is_directory(path)) return std::make_unique<PeftFolder>(path, path);
    const std::string name = path.filename().string();
    if (name == "adapter_config.json" || name == "adapter_model.safetensors")
      return std::make_unique<PeftFolder>(path, path.parent_path());
    return std::make_unique<GgufAdapter>(path);
  } catch (const fs::filesystem_error& error) {
    fail(path.string(), ": ", error.code().message());
  }
}

}  // namespace graft::formats
