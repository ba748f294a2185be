// The requests of `graft run --batch`: JSON lines in graft's own form or in that of OpenAI's batch
// files.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/api/llm.h"
#include "graft/base/text/json.h"

namespace graft::cli {

struct BatchLine {
  OrderedJson id;                  // custom_id of the line; null: none
  std::string prompt;              // used when `raw`
  api::Conversation conversation;  // used otherwise
  api::SamplingParams params;
  bool raw = false;
  // OpenAI's form, whose result has it too: the endpoint and the request for it.
  bool is_openai = false;
  std::string url;
  OrderedJson body;
  std::string error;  // what is wrong with the line; empty: nothing
};

// What the flags of the command say about every line.
struct BatchDefaults {
  api::SamplingParams params = {};
  api::Thinking thinking = api::Thinking::ModelDecides;
  std::string system = {};
  bool raw = false;  // a "prompt" is a text to continue, not a message of the user
  // Fields of OpenAI's requests that generate, used where a body lacks them.
  OrderedJson fields = OrderedJson::object();
};

// Every line is an object with "prompt" or "messages", and optionally custom_id, tools, max_tokens,
// temperature, top_p, top_k, min_p, penalties, seed and stop; or {"custom_id", "method", "url",
// "body"}, where the body is a request of the server's endpoint `url`. The model of a body is not
// used: that of the command answers. An invalid line has an error that begins with its number.
// Throws Error when there is no line.
std::vector<BatchLine> parse_batch(std::string_view text,
                                   const std::string& name,
                                   const BatchDefaults& defaults);

}  // namespace graft::cli
