// TokenizerData from the tokenizer files of a Hugging Face folder.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "graft/base/text/json.h"
#include "graft/formats/tokenizer_data.h"

namespace graft::formats {

// The files beside tokenizer.json; null or empty for a missing file.
struct HfTokenizerExtras {
  const Json* tokenizer_config = nullptr;
  const Json* special_tokens_map = nullptr;
  std::string chat_template;  // chat_template.jinja or chat_template.json
};

// Ids without a token up to model.vocab_size become "[PAD<id>]", typed Unused. Throws Error
// (subject: `where`) when the file is malformed; unsupported content is a warning.
TokenizerData read_hf_tokenizer(const Json& tokenizer,
                                const HfTokenizerExtras& extras,
                                const ModelTokens& model,
                                const std::string& where,
                                std::vector<std::string>& warnings);

// Empty when the folder has no tokenizer.json (with a warning when it has another tokenizer).
TokenizerData read_hf_tokenizer_folder(const std::filesystem::path& folder,
                                       const ModelTokens& model,
                                       std::vector<std::string>& warnings);

}  // namespace graft::formats
