// A checkpoint with its model configuration: the files (formats::WeightSource), the ModelConfig
// that the model family reads from them, and the tokenizer.

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/formats/created_model.h"
#include "graft/formats/weight_source.h"
#include "graft/models/config/model_config.h"

namespace graft::models {

class Checkpoint final : public formats::WeightSource {
 public:
  // Reads the configuration and the tokenizer. Throws Error for an unsupported family
  // and for invalid values. Without a configuration file, config() has no family and no layers.
  explicit Checkpoint(std::unique_ptr<formats::WeightSource> source);
  Checkpoint(std::unique_ptr<formats::WeightSource> source, ModelConfig config);

  const ModelConfig& config() const { return config_; }
  // Empty (no tokens) when the checkpoint has none.
  const formats::TokenizerData& tokenizer() const { return tokenizer_; }
  // What a created model changes; null for other models. The template and the sampling defaults are
  // those of tokenizer() and config() already.
  const formats::CreatedModel* created() const { return created_ ? &*created_ : nullptr; }
  void set_created(formats::CreatedModel created);
  // Takes the tokenizer from a folder or file (formats::read_tokenizer), with its chat template, if
  // it has one, and of the generation_config.json in the folder the end tokens and the sampling
  // defaults. Throws Error for a tokenizer with more tokens than the model.
  void use_tokenizer(const std::filesystem::path& path);
  // Unsupported content of the files, one line each.
  std::span<const std::string> warnings() const { return warnings_; }

  void add_warning(std::string line) { warnings_.push_back(std::move(line)); }

  std::string_view format() const override { return source_->format(); }
  const std::filesystem::path& path() const override { return source_->path(); }
  std::span<const std::filesystem::path> files() const override { return source_->files(); }
  const formats::HfConfigFiles* hf_config() const override { return source_->hf_config(); }
  const formats::GgufMetadata* gguf_metadata() const override { return source_->gguf_metadata(); }
  const formats::GgufMetadata* mmproj_metadata() const override {
    return source_->mmproj_metadata();
  }
  std::span<const formats::TensorInfo> tensors() const override { return source_->tensors(); }
  const formats::TensorInfo* find(std::string_view name) const override {
    return source_->find(name);
  }
  void release(const formats::TensorInfo& tensor) const override { source_->release(tensor); }
  formats::TokenizerData read_tokenizer(const formats::ModelTokens& tokens,
                                        std::vector<std::string>& warnings) const override {
    return source_->read_tokenizer(tokens, warnings);
  }

 private:
  std::unique_ptr<formats::WeightSource> source_;
  ModelConfig config_;
  std::vector<std::string> warnings_;
  formats::TokenizerData tokenizer_;
  std::optional<formats::CreatedModel> created_;
};

// Accepts the same paths as formats::open_weights(), and created models.
// `mmproj`: the vision tower of a GGUF model; empty: the one beside it, if there is one.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path,
                                            const std::filesystem::path& mmproj = {});

}  // namespace graft::models
