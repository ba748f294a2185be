// Which tools a response may or must call, and the grammar that forced and strict calls follow.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graft/api/chat_format.h"
#include "graft/base/text/json.h"
#include "graft/server/fields.h"
#include "graft/server/generation/generation.h"

namespace graft::server {

struct ToolChoice {
  bool is_forced = false;               // the response is one or more calls
  std::vector<std::string> names = {};  // of tools that may be called; empty: all
};

// tool_choice of chat completions and of Responses: "auto", "none", "required" (Mistral: "any"), a
// function, or allowed_tools. nullopt: no tool may be called. Throws ApiError 400.
std::optional<ToolChoice> read_tool_choice(const Fields& fields);

// Throws ApiError 400 that names the field when the request has no tool of a name, or a forced call
// has no tools.
void check_tool_choice(const ToolChoice& choice,
                       const OrderedJson& tools,
                       const std::string& field = "tool_choice");

// The calls of a request.
struct CallOptions {
  ToolChoice choice = {};
  OrderedJson tools = nullptr;  // null: calls are not parsed
  bool is_single = false;
};

// Makes the output follow the grammar of its calls where they are forced, strict or limited to some
// tools; else begins the structured output of the request after the reasoning. A forced call leaves
// no content that the response format could apply to. Throws ApiError 400.
void constrain_output(const api::ChatPrompt& prompt,
                      const CallOptions& calls,
                      GenerationInput& input);

}  // namespace graft::server
