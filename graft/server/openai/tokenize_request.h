// The requests of POST /tokenize and /detokenize, parsed and validated. Pure: JSON in, values out.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"

namespace graft::server::openai {

struct TokenizeRequest {
  std::optional<api::Conversation> conversation = {};
  std::string text = {};  // without a conversation
  bool add_special = true;
  bool parse_special = true;
};

// Both throw ApiError 400 that names the field.
TokenizeRequest read_tokenize_request(const OrderedJson& body);
std::vector<api::TokenId> read_detokenize_request(const OrderedJson& body);

}  // namespace graft::server::openai
