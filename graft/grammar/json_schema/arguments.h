// The arguments of a tool call that a schema allows, as the family of the model writes them: a JSON
// object, or parameters one by one.

#pragma once

#include <span>

#include "graft/base/text/json.h"
#include "graft/grammar/expression.h"
#include "graft/grammar/special_tokens.h"

namespace graft::grammar {

// The description is an object with
//
//   tool        its name, for messages
//   schema      the JSON schema of the arguments; only objects are arguments
//   parameters  absent: a JSON object. An object with texts, in which the names of special tokens
//               are these tokens:
//     before_key, before_text, before_json, after_value    KEY stands after before_key
//     separator   between parameters
//     excluded    list of texts that end a value: values do not contain them
//     kind        "typed": before_text and before_json tell text and JSON apart
//                 "untyped": the reader decides by the schema (value_types.h)
//                 "python": keyword arguments, JSON or Python's True, False, None
//
// Parameters stand in the order of the schema, and only those that it names. Throws Error that
// names the tool, the keyword and its path.
RuleId add_arguments(RuleSet& rules,
                     const OrderedJson& description,
                     std::span<const SpecialToken> tokens);

}  // namespace graft::grammar
