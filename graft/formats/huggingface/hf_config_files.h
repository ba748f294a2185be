// config.json and generation_config.json of a Hugging Face checkpoint as JSON. What the keys mean
// depends on the model's family; the keys about tokens are the same for all and are read here.

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
};

// Reads config.json at `path` and the generation_config.json beside it.
HfConfigFiles read_hf_config_files(const std::filesystem::path& path);

// bos_token_id, pad_token_id and eos_token_id replace what `tokens` has; an absent key leaves it.
void read_token_ids(const Fields& fields, ModelTokens& tokens);

// Everything config.json (with the "text_config" of multimodal models) and generation_config.json
// say about tokens, the latter first. Throws Error for values of the wrong kind.
ModelTokens read_model_tokens(const HfConfigFiles& files);

}  // namespace graft::formats
