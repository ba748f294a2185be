// Regular expressions of rule files and tokenizers, by PCRE2. In rules they stand for Python's
// `re.search`.
//
// The two languages agree on what rules use: search anywhere, anchors, classes, groups, lookaround,
// named groups, `$` before a final newline. They differ in corners: Python's \Z is PCRE2's \z, its
// {,n} is a literal text here (write {0,n}), \uXXXX is \x{XXXX}; and PCRE2 knows more (possessive
// quantifiers, \K, recursion).

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace graft {

class Regex {
 public:
  // Throws Error "at 7: missing closing parenthesis": the offset is in bytes, from 0.
  explicit Regex(std::string_view pattern);

  // Whether the pattern is found somewhere in `subject`. Throws Error when the search takes so many
  // steps that the pattern must be a catastrophic one.
  bool search(std::string_view subject) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code, kept out of this header
};

}  // namespace graft
