// The requests of POST /api/chat and /api/generate, parsed and validated. Pure: JSON in, values
// out.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/server/ollama/options.h"

namespace graft::server::ollama {

struct Request {
  std::string model = {};
  Options options = {};
  OrderedJson options_json = OrderedJson::object();  // as given, for a model with its own
  bool is_stream = true;
  bool is_chat = false;
  std::optional<double> keep_alive_seconds = {};
  // No prompt: load the model, or unload it with keep_alive 0.
  bool is_empty = false;

  api::Conversation conversation = {};
  bool parse_tool_calls = false;
  // generate: use the prompt without a chat template.
  bool is_raw = false;
  std::string prompt = {};
  std::string suffix = {};                 // generate: complete the text between prompt and suffix
  std::vector<api::TokenId> context = {};  // generate: tokens of an earlier response to continue
};

// Both throw ApiError 400 that names the field.
Request read_chat(const OrderedJson& body);
Request read_generate(const OrderedJson& body);

}  // namespace graft::server::ollama
