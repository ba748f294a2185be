#include "graft/server/openai/tokenize_request.h"

#include "graft/server/fields.h"
#include "graft/server/openai/chat_request.h"

namespace graft::server::openai {

TokenizeRequest read_tokenize_request(const OrderedJson& body) {
  const Fields fields(body);
  TokenizeRequest request;
  if (fields.has("messages")) {
    request.conversation = read_chat_request(body).conversation;
    return request;
  }
  fields.reject_unknown(
      {"model", "lora", "prompt", "content", "add_special_tokens", "add_special", "parse_special"});
  request.text = fields.required_string(fields.has("content") ? "content" : "prompt");
  // vLLM's name, then llama.cpp's.
  request.add_special =
      fields.boolean("add_special_tokens").value_or(fields.boolean("add_special").value_or(true));
  request.parse_special = fields.boolean("parse_special").value_or(true);
  return request;
}

std::vector<api::TokenId> read_detokenize_request(const OrderedJson& body) {
  const Fields fields(body);
  fields.reject_unknown({"model", "lora", "tokens"});
  if (!fields.has("tokens")) fields.fail_at("tokens", "is missing");
  return fields.token_ids("tokens");
}

}  // namespace graft::server::openai
