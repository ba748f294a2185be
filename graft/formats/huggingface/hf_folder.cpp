#include "graft/formats/huggingface/hf_folder.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/formats/block_scales.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/formats/integers/integer_weights.h"
#include "graft/formats/name_index.h"
#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/formats/safetensors/safetensors_folder.h"

namespace graft::formats {
namespace {

// The configuration and the tokenizer of a folder; `config` is empty for a safetensors file alone.
class HfFiles : public WeightSource {
 public:
  HfFiles(std::filesystem::path path, std::optional<HfConfigFiles> config)
      : path_(std::move(path)), config_(std::move(config)) {}

  const std::filesystem::path& path() const override { return path_; }
  const HfConfigFiles* hf_config() const override { return config_ ? &*config_ : nullptr; }
  TokenizerData read_tokenizer(const ModelTokens& tokens,
                               std::vector<std::string>& warnings) const override {
    if (!config_) return {};
    return read_hf_tokenizer_folder(config_->path.parent_path(), tokens, warnings);
  }

 private:
  std::filesystem::path path_;
  std::optional<HfConfigFiles> config_;
};

std::vector<TensorInfo> combine(const HfConfigFiles* files, std::span<const TensorInfo> tensors) {
  if (files == nullptr) return {};
  const std::string where = files->path.string();
  std::vector<std::string> problems;
  const Fields top(files->config, "", problems);
  const IntegerConfig config = read_integer_config(top.object("quantization_config"));
  fail_if_any(problems, where);
  std::vector<TensorInfo> integers = combine_integer_weights(tensors, config, where);
  return integers.empty() ? combine_block_scales(tensors, where) : integers;
}

// `Weights` is a SafetensorsFolder or a SafetensorsFile.
template <class Weights>
class SafetensorsSource final : public HfFiles {
 public:
  SafetensorsSource(std::filesystem::path path,
                    std::optional<HfConfigFiles> config,
                    Weights weights,
                    std::vector<std::filesystem::path> files)
      : HfFiles(std::move(path), std::move(config)),
        weights_(std::move(weights)),
        files_(std::move(files)),
        combined_(combine(hf_config(), weights_.tensors())),
        index_(tensors()) {}

  std::string_view format() const override { return "safetensors"; }
  std::span<const std::filesystem::path> files() const override { return files_; }
  std::span<const TensorInfo> tensors() const override {
    return combined_.empty() ? weights_.tensors() : combined_;
  }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& tensor) const override {
    if (!tensor.row_source) return weights_.release(tensor);
    for (const TensorInfo& part : tensor.row_source->parts())
      weights_.release(part);
  }

 private:
  Weights weights_;
  std::vector<std::filesystem::path> files_;
  std::vector<TensorInfo> combined_;  // with the weights of packed integers; empty: there are none
  NameIndex index_;
};

class ConfigSource final : public HfFiles {
 public:
  explicit ConfigSource(const std::filesystem::path& path)
      : HfFiles(path, read_hf_config_files(path)) {}

  std::string_view format() const override { return "config.json"; }
  std::span<const std::filesystem::path> files() const override { return {&path(), 1}; }
  std::span<const TensorInfo> tensors() const override { return {}; }
  const TensorInfo* find(std::string_view /*name*/) const override { return nullptr; }
  void release(const TensorInfo& /*tensor*/) const override {}
};

}  // namespace

std::unique_ptr<WeightSource> open_hf_folder(const std::filesystem::path& folder) {
  const auto config_path = folder / "config.json";
  if (!std::filesystem::exists(config_path)) {
    fail(folder.string(), ": not a Hugging Face checkpoint: the folder has no config.json");
  }
  HfConfigFiles config = read_hf_config_files(config_path);
  SafetensorsFolder weights(folder);
  std::vector<std::filesystem::path> files = weights.paths();
  return std::make_unique<SafetensorsSource<SafetensorsFolder>>(
      folder, std::move(config), std::move(weights), std::move(files));
}

std::unique_ptr<WeightSource> open_safetensors_file(const std::filesystem::path& path) {
  const auto config_path = path.parent_path() / "config.json";
  std::optional<HfConfigFiles> config;
  if (std::filesystem::exists(config_path)) config = read_hf_config_files(config_path);
  return std::make_unique<SafetensorsSource<SafetensorsFile>>(
      path, std::move(config), SafetensorsFile(path), std::vector<std::filesystem::path>{path});
}

std::unique_ptr<WeightSource> open_hf_config(const std::filesystem::path& path) {
  return std::make_unique<ConfigSource>(path);
}

}  // namespace graft::formats
