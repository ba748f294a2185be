// Items of the Responses API: those of a request with ids, and their conversation as messages of
// chat templates. Pure, but for new ids.

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graft/base/text/json.h"
#include "graft/server/fields.h"

namespace graft::server::openai::responses {

// `input` as a list of items, each with `type` and `id`. Checks types and fields; throws ApiError
// 400 that names the item ("input[2].content[0].type: …"). References stay.
OrderedJson read_items(const Fields& fields);

// Chat messages of items from read_items() and of earlier output. Calls and reasoning of a turn
// become one message of the assistant; system and developer messages at the start become one.
// `instructions` precede them; empty: none.
OrderedJson to_messages(const OrderedJson& items, const std::string& instructions);

// `tools` as functions of templates; null: none. Throws ApiError 400 for types other than function
// and namespace. The hosted web search, which Codex always offers, is left out: a model never
// chooses it.
OrderedJson read_function_tools(const Fields& fields);

// A function of a namespace is called NAMESPACE__NAME by the model.
struct QualifiedName {
  std::string name_space = {};
  std::string name = {};
};
// The functions of `tools` that are in namespaces, by the names that the model uses.
std::map<std::string, QualifiedName> read_namespaces(const Fields& fields);

// The marker of reasoning that a client keeps for the server (reasoning.encrypted_content).
inline constexpr std::string_view kReasoningMark = "graft:";

}  // namespace graft::server::openai::responses
