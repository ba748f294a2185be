// What a model is, from its files' headers alone: for lists of models, loaded or not.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace graft::server {

struct ModelInfo {
  std::string name = {};
  std::filesystem::path path = {};
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;      // seconds since 1970
  std::string digest = {};        // of what its headers say, not of all its bytes
  std::string format = {};        // "gguf", "safetensors"
  std::string architecture = {};  // as GGUF spells it
  std::int64_t num_parameters = 0;
  std::string quantization = {};  // the type of most bytes
  std::int64_t context_length = 0;
  std::int64_t embedding_length = 0;
  std::int64_t num_layers = 0;
  std::int64_t vocab_size = 0;
  std::string chat_template = {};  // empty: none
};

// Throws Error when it cannot be opened.
ModelInfo read_model_info(const std::string& name, const std::filesystem::path& path);

}  // namespace graft::server
