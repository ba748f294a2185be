// Description of a model, read only from the headers of its files: for model lists, loaded or not.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace graft::server {

struct ModelInfo {
  std::string name = {};
  std::filesystem::path path = {};
  std::uint64_t bytes = 0;
  std::int64_t modified = 0;      // Unix time in seconds
  std::string digest = {};        // SHA-256 of the headers, not of the weights
  std::string format = {};        // "gguf", "safetensors"
  std::string architecture = {};  // GGUF name
  std::int64_t num_parameters = 0;
  std::string quantization = {};  // the dtype with the largest share of the bytes
  std::int64_t context_length = 0;
  std::int64_t embedding_length = 0;
  std::int64_t num_layers = 0;
  std::int64_t vocab_size = 0;
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t feed_forward_length = 0;
  bool has_vision = false;  // reads images
  std::string parameters = {};     // the model's own sampling defaults, one "name value" per line
  std::string chat_template = {};  // empty: none
  // Of a created model.
  std::string from = {};
  std::string system = {};
  std::string license = {};
  std::int64_t num_ctx = 0;  // max tokens of prompt and output; 0: the context length
};

// Throws Error when the files cannot be read.
ModelInfo read_model_info(const std::string& name, const std::filesystem::path& path);

}  // namespace graft::server
