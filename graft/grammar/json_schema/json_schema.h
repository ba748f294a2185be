// JSON schemas (drafts 7 and 2020-12) as rules: the texts of the values that a schema allows, in
// one form each:
//
// - Properties in the order of the schema, then others. No space before a colon or comma; after
//   them and inside brackets nothing, one space, or a line end with up to 32 blanks.
// - Strings with a pattern, format, enum or const, and keys: only quotes, backslashes and control
//   characters are escaped. Other strings may have any escape.
// - Integers have no fraction or exponent; numbers with a range, multiple or enum have no exponent
//   and no final zero after the point.
//
// What cannot be checked exactly is an Error that names the keyword and its path.

#pragma once

#include "graft/base/text/json.h"
#include "graft/grammar/expression.h"

namespace graft::grammar {

// Adds the rules of the schema and returns the one of the value. Throws Error.
RuleId add_json_schema(RuleSet& rules, const OrderedJson& schema);

}  // namespace graft::grammar
