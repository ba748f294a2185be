#include "graft/formats/huggingface/hf_folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/huggingface/hf_config.h"
#include "graft/formats/huggingface/hf_tokenizer.h"
#include "graft/formats/name_index.h"
#include "graft/formats/safetensors/safetensors_file.h"
#include "graft/formats/safetensors/safetensors_folder.h"

namespace graft::formats {
namespace {

// What the small files of a folder say.
struct Description {
  ModelConfig config;
  TokenizerData tokenizer;
  std::vector<std::string> warnings;
};

Description describe(const std::filesystem::path& config_path) {
  const auto folder = config_path.parent_path();
  const auto generation_path = folder / "generation_config.json";
  std::optional<Json> generation;
  if (std::filesystem::exists(generation_path)) generation = read_json_file(generation_path);

  Description description;
  description.config = read_hf_config(read_json_file(config_path),
                                      generation ? &*generation : nullptr, config_path.string());
  // A folder given as "." has a name too.
  description.config.name =
      std::filesystem::canonical(folder.empty() ? "." : folder).filename().string();
  description.tokenizer =
      read_hf_tokenizer_folder(folder, description.config, description.warnings);
  return description;
}

// transformers drops next-token-prediction layers when it saves a model, but keeps their number.
void count_nextn_layers(std::span<const TensorInfo> tensors, Description& description) {
  ModelConfig& config = description.config;
  std::int64_t found = 0;
  for (; found < config.num_nextn_predict_layers; ++found) {
    const std::string prefix = str("model.layers.", config.num_hidden_layers + found, '.');
    const bool is_there = std::ranges::any_of(
        tensors, [&](const TensorInfo& tensor) { return tensor.name.starts_with(prefix); });
    if (!is_there) break;
  }
  if (found == config.num_nextn_predict_layers) return;
  description.warnings.push_back(str("config.json counts ", config.num_nextn_predict_layers,
                                     " next-token-prediction layers, the files have ", found));
  config.num_nextn_predict_layers = found;
}

// `Weights` is a SafetensorsFolder or a SafetensorsFile.
template <class Weights>
class HfSource final : public WeightSource {
 public:
  HfSource(Weights weights,
           std::vector<std::filesystem::path> files,
           std::optional<Description> description)
      : weights_(std::move(weights)), files_(std::move(files)), index_(weights_.tensors()) {
    if (description) description_ = *std::move(description);
  }

  std::string_view format() const override { return "safetensors"; }
  std::span<const std::filesystem::path> files() const override { return files_; }
  const ModelConfig& config() const override { return description_.config; }
  const TokenizerData& tokenizer() const override { return description_.tokenizer; }
  std::span<const TensorInfo> tensors() const override { return weights_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  std::span<const std::string> warnings() const override { return description_.warnings; }
  void release(const TensorInfo& tensor) const override { weights_.release(tensor); }

 private:
  Weights weights_;
  std::vector<std::filesystem::path> files_;
  NameIndex index_;
  Description description_;
};

class ConfigSource final : public WeightSource {
 public:
  explicit ConfigSource(const std::filesystem::path& path)
      : files_{path}, description_(describe(path)) {}

  std::string_view format() const override { return "config.json"; }
  std::span<const std::filesystem::path> files() const override { return files_; }
  const ModelConfig& config() const override { return description_.config; }
  const TokenizerData& tokenizer() const override { return description_.tokenizer; }
  std::span<const TensorInfo> tensors() const override { return {}; }
  const TensorInfo* find(std::string_view /*name*/) const override { return nullptr; }
  std::span<const std::string> warnings() const override { return description_.warnings; }
  void release(const TensorInfo& /*tensor*/) const override {}

 private:
  std::vector<std::filesystem::path> files_;
  Description description_;
};

}  // namespace

std::unique_ptr<WeightSource> open_hf_folder(const std::filesystem::path& folder) {
  const auto config_path = folder / "config.json";
  if (!std::filesystem::exists(config_path)) {
    fail(folder.string(), ": a folder without config.json is no Hugging Face checkpoint");
  }
  Description description = describe(config_path);
  SafetensorsFolder weights(folder);
  count_nextn_layers(weights.tensors(), description);
  std::vector<std::filesystem::path> files = weights.paths();
  return std::make_unique<HfSource<SafetensorsFolder>>(std::move(weights), std::move(files),
                                                       std::move(description));
}

std::unique_ptr<WeightSource> open_safetensors_file(const std::filesystem::path& path) {
  const auto config_path = path.parent_path() / "config.json";
  std::optional<Description> description;
  if (std::filesystem::exists(config_path)) description = describe(config_path);
  return std::make_unique<HfSource<SafetensorsFile>>(
      SafetensorsFile(path), std::vector<std::filesystem::path>{path}, std::move(description));
}

std::unique_ptr<WeightSource> open_hf_config(const std::filesystem::path& path) {
  return std::make_unique<ConfigSource>(path);
}

}  // namespace graft::formats
