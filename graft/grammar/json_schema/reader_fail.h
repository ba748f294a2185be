// The Errors of Reader, for its source files.

#pragma once

#include <string>

#include "graft/base/error.h"
#include "graft/grammar/json_schema/reader.h"

namespace graft::grammar::json {

template <class... Parts>
void Reader::fail_at(SchemaRef schema, const std::string& keyword, const Parts&... parts) const {
  fail(path_of(schema), "/", keyword, ": ", parts...);
}

}  // namespace graft::grammar::json
