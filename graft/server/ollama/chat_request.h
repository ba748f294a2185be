// POST /api/chat and /api/generate: what was asked. Pure: JSON in, checked values out.

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
  bool is_stream = true;
  bool is_chat = false;
  std::optional<double> keep_alive_seconds = {};
  // Nothing is asked: the model is to be loaded, or with keep_alive 0 unloaded.
  bool is_empty = false;

  api::Conversation conversation = {};
  bool reads_tools = false;
  // generate, raw: the prompt as it is, without a template.
  bool is_raw = false;
  std::string prompt = {};
  std::vector<api::TokenId> context = {};  // of an earlier answer, to go on from
};

// Both throw ApiError 400 that names the field.
Request read_chat(const OrderedJson& body);
Request read_generate(const OrderedJson& body);

}  // namespace graft::server::ollama
