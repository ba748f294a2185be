// Calls in Python's syntax: [f(a=1, b="text"), g()], with keyword arguments whose values are
// literals.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graft/base/text/json.h"

namespace graft::server {

struct PythonCall {
  std::string name;
  OrderedJson arguments;  // an object
};

// Empty when the text is not a list of calls as a whole.
std::vector<PythonCall> parse_python_calls(std::string_view text);

}  // namespace graft::server
