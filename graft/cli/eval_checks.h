// Whether an answer is right, by the kind of check that an evaluation file names.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::cli {

// `answer` is a text, or for "story" a list of words. A leading <think> block of `output` does not
// count.
//   exact        the whole text
//   num          the last number
//   contains     the answer as a word of its own; contains_ci: anywhere, whatever the case
//   lastword     the last word
//   json, tool   equal as JSON; a tool call is in <tool_call> tags
//   story        50 to 260 words, with all listed words among them
//   open         anything
// Throws Error for another kind, and for an answer that does not fit it.
bool is_right(std::string_view check, const Json& answer, std::string_view output);

}  // namespace graft::cli
