// Converts Anthropic's system prompt, messages and tools to OpenAI's form, which chat templates
// take. Pure: JSON in, JSON out.

#pragma once

#include "graft/base/text/json.h"
#include "graft/server/fields.h"

namespace graft::server::anthropic {

// `system` and `messages`. Throws ApiError 400 that names the block ("messages[2].content[1].type:
// …"), also for what no template takes: files, results of server tools, images of others
// than the user.
OrderedJson read_conversation(const Fields& fields);

// `tools` as functions; null: none. Throws ApiError 400 for tools that the API itself defines.
OrderedJson read_tools(const Fields& fields);

}  // namespace graft::server::anthropic
