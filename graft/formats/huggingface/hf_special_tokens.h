// The special tokens (begin, end, padding …), whether they are added to text, and the chat
// template, from tokenizer.json, tokenizer_config.json, special_tokens_map.json and config.json.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graft/formats/huggingface/hf_tokenizer.h"

namespace graft::formats {

// `ids` maps the text of a token to its id. Adds to `out` and to `problems`.
void read_special_tokens(const Json& tokenizer,
                         const HfTokenizerExtras& extras,
                         const ModelTokens& model,
                         const std::unordered_map<std::string, std::int64_t>& ids,
                         TokenizerData& out,
                         std::vector<std::string>& problems);

}  // namespace graft::formats
