#include "graft/models/weights/checkpoint.h"

#include <algorithm>
#include <utility>

#include "graft/base/error.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"

namespace graft::models {
namespace {

ModelConfig read_hf(const formats::HfConfigFiles& files,
                    std::span<const formats::TensorInfo> tensors) {
  ModelConfig config =
      read_hf_config(files.config, files.generation_config ? &*files.generation_config : nullptr,
                     files.path.string(), tensors);
  // The name of the folder, also when it is given as ".".
  const auto folder = files.path.parent_path();
  config.name = std::filesystem::canonical(folder.empty() ? "." : folder).filename().string();
  return config;
}

ModelConfig read_config(const formats::WeightSource& source) {
  if (const formats::HfConfigFiles* files = source.hf_config())
    return read_hf(*files, source.tensors());
  const formats::GgufMetadata* metadata = source.gguf_metadata();
  if (metadata == nullptr) return {};
  ModelConfig config = read_gguf_config(*metadata, source.tensors(), source.path().string());
  if (config.name.empty()) config.name = source.path().stem().string();
  return config;
}

// transformers drops next-token-prediction layers when it saves a model, but keeps their count.
// Checks folders only: a single file may be one of several shards.
void count_nextn_layers(const formats::WeightSource& source,
                        ModelConfig& config,
                        std::vector<std::string>& warnings) {
  if (source.hf_config() == nullptr || !std::filesystem::is_directory(source.path())) return;
  std::int64_t found = 0;
  for (; found < config.num_nextn_predict_layers; ++found) {
    const std::string prefix = str("model.layers.", config.num_hidden_layers + found, '.');
    const bool has_layer = std::ranges::any_of(
        source.tensors(),
        [&](const formats::TensorInfo& tensor) { return tensor.name.starts_with(prefix); });
    if (!has_layer) break;
  }
  if (found == config.num_nextn_predict_layers) return;
  warnings.push_back(str("config.json counts ", config.num_nextn_predict_layers,
                         " next-token-prediction layers, the files have ", found));
  config.num_nextn_predict_layers = found;
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<formats::WeightSource> source, ModelConfig config)
    : source_(std::move(source)),
      config_(std::move(config)),
      tokenizer_(source_->read_tokenizer(config_.tokens(), warnings_)) {}

Checkpoint::Checkpoint(std::unique_ptr<formats::WeightSource> source)
    : source_(std::move(source)),
      config_(read_config(*source_)),
      tokenizer_(source_->read_tokenizer(config_.tokens(), warnings_)) {
  count_nextn_layers(*source_, config_, warnings_);
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  try {
    return std::make_unique<Checkpoint>(formats::open_weights(path));
  } catch (const std::filesystem::filesystem_error& error) {
    fail(path.string(), ": ", error.code().message());
  }
}

}  // namespace graft::models
