#include "graft/formats/gguf/gguf_source.h"

#include "graft/base/text/str.h"
#include "graft/formats/gguf/gguf_file.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/name_index.h"

namespace graft::formats {
namespace {

class GgufSource final : public WeightSource {
 public:
  explicit GgufSource(const std::filesystem::path& path)
      : path_(path),
        file_(path),
        format_(str("GGUF v", file_.version())),
        index_(file_.tensors()) {}

  std::string_view format() const override { return format_; }
  const std::filesystem::path& path() const override { return path_; }
  std::span<const std::filesystem::path> files() const override { return file_.paths(); }
  const GgufMetadata* gguf_metadata() const override { return &file_.metadata(); }
  std::span<const TensorInfo> tensors() const override { return file_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& tensor) const override { file_.release(tensor); }
  TokenizerData read_tokenizer(const ModelTokens& /*tokens*/,
                               std::vector<std::string>& warnings) const override {
    return read_gguf_tokenizer(file_.metadata(), path_.string(), warnings);
  }

 private:
  std::filesystem::path path_;
  GgufFile file_;
  std::string format_;
  NameIndex index_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf(const std::filesystem::path& path) {
  return std::make_unique<GgufSource>(path);
}

}  // namespace graft::formats
