// The types that a schema names, without compiling it. The parser of tool calls decides by them
// whether an untyped parameter is text or JSON, and grammars of calls follow its decision.

#pragma once

#include <string>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::grammar {

// Of type, enum, const and the parts of anyOf, oneOf, allOf and local references: "string",
// "integer", … Empty: any. `document` is what references point into.
std::vector<std::string> value_types(const OrderedJson& document, const OrderedJson& schema);

// Whether a value is of a type: "integer", "number" or OrderedJson's type_name().
bool is_of_type(const OrderedJson& value, const std::string& type);

}  // namespace graft::grammar
