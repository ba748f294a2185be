#include "graft/models/weights/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/formats/gguf/paired_source.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/formats/read_tokenizer.h"
#include "graft/models/config/gguf_config.h"
#include "graft/models/config/hf_config.h"
#include "graft/models/config/mmproj_config.h"
#include "graft/models/weights/unused_tensors.h"

namespace graft::models {
namespace {

ModelConfig read_hf(const formats::HfConfigFiles& files,
                    std::span<const formats::TensorInfo> tensors) {
  ModelConfig config =
      read_hf_config(files.config, files.generation_config ? &*files.generation_config : nullptr,
                     files.path.string(), tensors);
  if (config.vision && files.preprocessor_config) {
    read_preprocessor(*files.preprocessor_config,
                      (files.path.parent_path() / "preprocessor_config.json").string(), config);
  }
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
  if (const formats::GgufMetadata* tower = source.mmproj_metadata())
    read_mmproj_config(*tower, source.tensors(), source.files().back().string(), config);
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
  if (const std::string warning = modality_warning(source_->tensors(), config_); !warning.empty())
    warnings_.push_back(warning);
}

void Checkpoint::set_created(formats::CreatedModel created) {
  const auto set = [&](const char* name, auto& value) {
    const auto found = created.parameters.find(name);
    if (found == created.parameters.end()) return;
    if (!found->is_number()) fail(created.name, ": parameter '", name, "' is not a number");
    value = found->get<typename std::remove_reference_t<decltype(value)>::value_type>();
  };
  set("temperature", config_.temperature);
  set("top_p", config_.top_p);
  set("top_k", config_.top_k);
  if (!created.chat_template.empty()) tokenizer_.chat_template = created.chat_template;
  created_ = std::move(created);
}

void Checkpoint::use_tokenizer(const std::filesystem::path& path) {
  formats::TokenizerData given = formats::read_tokenizer(path, warnings_);
  const auto count = static_cast<std::int64_t>(given.tokens.size());
  const std::int64_t rows = config_.tokens().vocab_size;
  if (rows > 0 && count > rows) {
    fail(path.string(), ": a tokenizer of ", count, " tokens, the model ", config_.name, " has ",
         rows);
  }
  if (given.chat_template.empty()) given.chat_template = tokenizer_.chat_template;
  tokenizer_ = std::move(given);
  const std::filesystem::path generation = path / "generation_config.json";
  if (std::filesystem::exists(generation))
    read_generation_config(read_json_file(generation), generation.string(), config_);
}

namespace {

// A folder or safetensors file without config.json: weights of what?
void check_config(const std::filesystem::path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && path.extension() != ".safetensors") return;
  const std::filesystem::path folder = is_folder ? path : path.parent_path();
  if (std::filesystem::exists(folder / "config.json")) return;
  if (std::filesystem::exists(folder / "adapter_config.json"))
    fail(path.string(), ": a LoRA adapter, not a model; graft needs its base model");
  if (!is_folder) fail(path.string(), ": config.json is missing beside it");
}

// A file that was found beside the model: one that does not fit is a warning.
std::unique_ptr<Checkpoint> open_with_found(std::unique_ptr<formats::WeightSource> model,
                                            const std::filesystem::path& mmproj) {
  const std::filesystem::path path = model->path();
  try {
    return std::make_unique<Checkpoint>(formats::with_mmproj(std::move(model), mmproj));
  } catch (const Error& error) {
    auto checkpoint = std::make_unique<Checkpoint>(formats::open_weights(path));
    checkpoint->add_warning(str("the vision tower is not used: ", error.what()));
    return checkpoint;
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                            const std::filesystem::path& mmproj) {
  try {
    if (formats::is_created_model(path)) {
      formats::CreatedModel created = formats::read_created_model(path);
      auto checkpoint = open_checkpoint(created.weights, mmproj);
      checkpoint->set_created(std::move(created));
      return checkpoint;
    }
    check_config(path);
    auto source = formats::open_weights(path);
    if (!mmproj.empty())
      return std::make_unique<Checkpoint>(formats::with_mmproj(std::move(source), mmproj));
    const std::filesystem::path found = formats::find_mmproj(path);
    if (found.empty()) return std::make_unique<Checkpoint>(std::move(source));
    return open_with_found(std::move(source), found);
  } catch (const std::filesystem::filesystem_error& error) {
    fail(path.string(), ": ", error.code().message());
  }
}

}  // namespace graft::models
