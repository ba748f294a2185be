#include "graft/formats/gguf/gguf_source.h"

#include "graft/base/text/str.h"
#include "graft/formats/gguf/gguf_config.h"
#include "graft/formats/gguf/gguf_file.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/name_index.h"

namespace graft::formats {
namespace {

class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const std::filesystem::path& path)
      : file_(path),
        format_(str("GGUF v", file_.version())),
        index_(file_.tensors()),
        config_(read_gguf_config(file_.metadata(), file_.tensors(), path.string())),
        tokenizer_(read_gguf_tokenizer(file_.metadata(), path.string(), warnings_)) {
    if (config_.name.empty()) config_.name = path.stem().string();
  }

  std::string_view format() const override { return format_; }
  std::span<const std::filesystem::path> files() const override { return file_.paths(); }
  const ModelConfig& config() const override { return config_; }
  const TokenizerData& tokenizer() const override { return tokenizer_; }
  std::span<const TensorInfo> tensors() const override { return file_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  std::span<const std::string> warnings() const override { return warnings_; }
  const GgufMetadata* gguf_metadata() const override { return &file_.metadata(); }
  void release(const TensorInfo& tensor) const override { file_.release(tensor); }

 private:
  GgufFile file_;
  std::string format_;
  NameIndex index_;
  std::vector<std::string> warnings_;
  ModelConfig config_;
  TokenizerData tokenizer_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf(const std::filesystem::path& path) {
  return std::make_unique<GgufSource>(path);
}

}  // namespace graft::formats
