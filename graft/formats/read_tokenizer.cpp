#include "graft/formats/read_tokenizer.h"

#include <cstring>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/system/mapped_file.h"
#include "graft/formats/gguf/gguf_file.h"
#include "graft/formats/gguf/gguf_tokenizer.h"
#include "graft/formats/huggingface/hf_config_files.h"
#include "graft/formats/huggingface/hf_tokenizer.h"

namespace graft::formats {
namespace {

bool is_gguf(const std::filesystem::path& path) {
  constexpr std::string_view kMagic = "GGUF";
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

// The rows of the embedding and the end tokens: the tokenizer files have neither.
ModelTokens model_tokens(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  if (!std::filesystem::exists(path)) return {};
  return read_model_tokens(read_hf_config_files(path));
}

TokenizerData read(const std::filesystem::path& path, std::vector<std::string>& warnings) {
  if (!std::filesystem::exists(path)) fail(path.string(), ": no such file or folder");
  const bool is_folder = std::filesystem::is_directory(path);
  if (!is_folder && is_gguf(path)) {
    return read_gguf_tokenizer(GgufFile(path).metadata(), path.string(), warnings);
  }
  if (!is_folder && path.extension() != ".json") {
    fail(path.string(), ": neither GGUF nor a tokenizer.json");
  }
  const auto folder = is_folder ? path : path.parent_path();
  return read_hf_tokenizer_folder(folder, model_tokens(folder), warnings);
}

}  // namespace

TokenizerData read_tokenizer(const std::filesystem::path& path,
                             std::vector<std::string>& warnings) {
  try {
    TokenizerData data = read(path, warnings);
    if (data.empty()) {
      fail(path.string(), ": no tokenizer", warnings.empty() ? "" : ", ",
           warnings.empty() ? "" : warnings.back());
    }
    return data;
  } catch (const std::filesystem::filesystem_error& error) {
    fail(path.string(), ": ", error.code().message());
  }
}

TokenizerData read_tokenizer(const std::filesystem::path& path) {
  std::vector<std::string> warnings;
  return read_tokenizer(path, warnings);
}

bool is_vocabulary(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path) || !is_gguf(path)) return false;
  const GgufFile file(path);
  return file.tensors().empty() && file.metadata().array("tokenizer.ggml.tokens") != nullptr;
}

}  // namespace graft::formats
