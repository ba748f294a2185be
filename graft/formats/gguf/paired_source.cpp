#include "graft/formats/gguf/paired_source.h"

#include <algorithm>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/formats/gguf/gguf_source.h"
#include "graft/formats/gguf/metadata.h"
#include "graft/formats/name_index.h"

namespace graft::formats {
namespace {

class PairedSource final : public WeightSource {
 public:
  PairedSource(std::unique_ptr<WeightSource> model, std::unique_ptr<WeightSource> tower)
      : model_(std::move(model)), tower_(std::move(tower)) {
    for (const WeightSource* source : {model_.get(), tower_.get()}) {
      files_.insert(files_.end(), source->files().begin(), source->files().end());
      tensors_.insert(tensors_.end(), source->tensors().begin(), source->tensors().end());
    }
    index_ = NameIndex(tensors_);
  }

  std::string_view format() const override { return model_->format(); }
  const std::filesystem::path& path() const override { return model_->path(); }
  std::span<const std::filesystem::path> files() const override { return files_; }
  const GgufMetadata* gguf_metadata() const override { return model_->gguf_metadata(); }
  const GgufMetadata* mmproj_metadata() const override { return tower_->gguf_metadata(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& tensor) const override {
    const bool is_of_model = model_->find(tensor.name) != nullptr;
    (is_of_model ? *model_ : *tower_).release(tensor);
  }
  TokenizerData read_tokenizer(const ModelTokens& tokens,
                               std::vector<std::string>& warnings) const override {
    return model_->read_tokenizer(tokens, warnings);
  }

 private:
  std::unique_ptr<WeightSource> model_;
  std::unique_ptr<WeightSource> tower_;
  std::vector<std::filesystem::path> files_;
  std::vector<TensorInfo> tensors_;
  NameIndex index_;
};

bool is_mmproj_name(const std::string& name) {
  return name.starts_with("mmproj") && name.ends_with(".gguf");
}

// "model-00002-of-00003" → "model"
std::string without_part(const std::string& stem) {
  const std::size_t at = stem.rfind("-of-");
  const std::size_t dash = at == std::string::npos ? at : stem.rfind('-', at - 1);
  return dash == std::string::npos ? stem : stem.substr(0, dash);
}

}  // namespace

std::unique_ptr<WeightSource> with_mmproj(std::unique_ptr<WeightSource> model,
                                          const std::filesystem::path& mmproj) {
  const std::string where = mmproj.string();
  if (model->gguf_metadata() == nullptr)
    fail(where, ": belongs to a GGUF model, ", model->path().string(), " is none");
  std::unique_ptr<WeightSource> tower = open_weights(mmproj);
  const GgufMetadata* metadata = tower->gguf_metadata();
  const bool is_clip =
      metadata != nullptr && metadata->string("general.architecture").value_or("") == "clip";
  if (!is_clip) fail(where, ": not a vision tower (mmproj): \"general.architecture\" is not clip");
  for (const TensorInfo& tensor : tower->tensors()) {
    if (model->find(tensor.name) != nullptr)
      fail(where, ": the model has a tensor ", tensor.name, " too");
  }
  return std::make_unique<PairedSource>(std::move(model), std::move(tower));
}

std::filesystem::path find_mmproj(const std::filesystem::path& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (model.extension() != ".gguf" || !fs::is_regular_file(model, error)) return {};
  const fs::path folder = model.parent_path().empty() ? fs::path(".") : model.parent_path();
  std::set<fs::path> towers;
  std::set<std::string> models;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = lower_case(file->path().filename().string());
    if (is_mmproj_name(name)) {
      towers.insert(file->path());
    } else if (name.ends_with(".gguf")) {
      models.insert(without_part(file->path().stem().string()));
    }
  }
  return towers.size() == 1 && models.size() == 1 ? *towers.begin() : fs::path();
}

}  // namespace graft::formats
