// Prompts that ask for the text between a prefix and a suffix, with the fill-in-the-middle tokens
// of the model's vocabulary.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graft/api/llm.h"
#include "graft/tokenizer/tokenizer.h"

namespace graft::server {

struct FillInMiddle {
  std::string_view prefix = {};
  std::string_view suffix = {};
  // Other files of the project, name and text. The model must know tokens that separate files.
  std::vector<std::pair<std::string, std::string>> files = {};
  std::string_view field = "suffix";  // of the request, for errors
};

// Special tokens in the texts stay text. Throws ApiError 400 for a vocabulary without such tokens.
std::vector<api::TokenId> fill_prompt(const tokenizer::Tokenizer& tokenizer,
                                      const FillInMiddle& input);

// Tokens that end the text besides the end of the response.
std::vector<api::TokenId> fill_stop_tokens(const tokenizer::Tokenizer& tokenizer);

}  // namespace graft::server
