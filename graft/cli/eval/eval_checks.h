// Checks answers of the model against the expected answers of an evaluation file.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/text/json.h"

namespace graft::cli {

// `answer` is a string, or for "story" a list of words. A leading <think> block of `output` is
// ignored.
//   exact        the whole text is equal
//   num          the last number is equal
//   contains     contains the answer as a separate word
//   contains_ci  contains the answer anywhere, ignoring case
//   lastword     the last word is equal
//   json, tool   equal as JSON; a tool call is in <tool_call> tags
//   story        50 to 260 words that include all listed words
//   open         any text that is not empty
// Throws Error for an unknown check and for an answer of the wrong JSON type.
bool is_right(std::string_view check, const Json& answer, std::string_view output);

}  // namespace graft::cli
