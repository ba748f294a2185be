// Which tokens have a meaning (begin, end, padding …), whether text gets them, the chat template:
// spread over tokenizer.json, tokenizer_config.json, special_tokens_map.json and config.json.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graft/formats/huggingface/hf_tokenizer.h"

namespace graft::formats {

// `ids` are the tokens by their text. Adds to `out` and to `problems`.
void read_special_tokens(const Json& tokenizer,
                         const HfTokenizerExtras& extras,
                         const ModelTokens& model,
                         const std::unordered_map<std::string, std::int64_t>& ids,
                         TokenizerData& out,
                         std::vector<std::string>& problems);

}  // namespace graft::formats
