#include "graft/grammar/json_schema/pattern.h"

#include <cstddef>
#include <string>
#include <vector>

#include "graft/base/error.h"
#include "graft/base/text/str.h"
#include "graft/grammar/regex.h"

namespace graft::grammar::json {
namespace {

struct Assertion {
  std::string_view pattern;
  bool is_negative = false;
};

// The first `wanted` outside of groups, classes and escapes.
std::size_t find_outside(std::string_view text, char wanted) {
  int depth = 0;
  bool in_class = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == wanted && depth == 0) {
      return i;
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    }
  }
  return std::string_view::npos;
}

Dfa found_at_start(std::string_view pattern) {
  return Dfa(regex_search(str("^(?:", pattern, ")")));
}

}  // namespace

Dfa pattern_strings(std::string_view pattern) {
  std::vector<Assertion> assertions;
  std::string_view rest = pattern.substr(pattern.starts_with('^') ? 1 : 0);
  while (rest.starts_with("(?!") || rest.starts_with("(?=")) {
    const std::string_view inside = rest.substr(3);
    const std::size_t end = find_outside(inside, ')');
    if (end == std::string_view::npos) break;
    assertions.push_back({.pattern = inside.substr(0, end), .is_negative = rest[2] == '!'});
    rest = inside.substr(end + 1);
  }
  // Otherwise the assertions are not about all strings: the error says that they are not supported.
  const bool concerns_all =
      pattern.starts_with('^') && find_outside(rest, '|') == std::string_view::npos;
  if (assertions.empty() || !concerns_all) return Dfa(regex_search(pattern));
  try {
    Dfa strings(regex_search(str("^", rest)));
    for (const Assertion& each : assertions) {
      const Dfa found = found_at_start(each.pattern);
      strings = each.is_negative ? difference(strings, found) : intersection(strings, found);
    }
    return strings;
  } catch (const Error& error) {
    fail("a part of ", pattern, ": ", error.what());
  }
}

}  // namespace graft::grammar::json
