// config.json, generation_config.json and preprocessor_config.json of a Hugging Face checkpoint as
// JSON. What the keys mean depends on the model's family; the keys about tokens are the same for
// all and are read here.

#pragma once

#include <filesystem>
#include <optional>

#include "graft/base/text/json.h"
#include "graft/formats/huggingface/fields.h"
#include "graft/formats/tokenizer_data.h"

namespace graft::formats {

struct HfConfigFiles {
  std::filesystem::path path;  // of config.json, for messages
  Json config;
  std::optional<Json> generation_config;  // nullopt: the folder has none
  std::optional<Json> preprocessor_config = {};
};

// Reads config.json at `path` and the other two beside it.
HfConfigFiles read_hf_config_files(const std::filesystem::path& path);

// bos_token_id, pad_token_id and eos_token_id override the values in `tokens`; absent keys do not.
void read_token_ids(const Fields& fields, ModelTokens& tokens);

// The token ids of config.json (with the "text_config" of multimodal models) and of
// generation_config.json, which takes precedence. Throws Error for values of the wrong type.
ModelTokens read_model_tokens(const HfConfigFiles& files);

}  // namespace graft::formats
