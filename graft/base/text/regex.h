// Regular expressions of rule files and tokenizers, implemented with PCRE2. In rule files they
// replace Python's `re.search`.
//
// Both syntaxes agree on what rules use: search anywhere, anchors, classes, groups, lookaround,
// named groups, `$` before a final newline. Differences: Python's \Z is PCRE2's \z, {,n} is literal
// text here (write {0,n}), \uXXXX is \x{XXXX}; PCRE2 adds possessive quantifiers, \K and recursion.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace graft {

// Reusable match buffers and JIT stack, for any pattern. Not thread-safe: one per thread.
class RegexScratch {
 public:
  RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;
  RegexScratch(RegexScratch&&) noexcept;
  RegexScratch& operator=(RegexScratch&&) noexcept;
  ~RegexScratch();

 private:
  friend class Regex;
  struct State;  // PCRE2 types, kept out of this header
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  // Byte offsets into the subject.
  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  // Throws Error such as "at 7: missing closing parenthesis"; the offset is in bytes, from 0.
  explicit Regex(std::string_view pattern);

  // Whether the pattern matches anywhere in `subject`. Throws Error above 100 000 backtracking
  // steps (catastrophic patterns) and for invalid UTF-8.
  bool search(std::string_view subject) const;

  // The first match that begins at byte `from` or later; lookbehind sees the text before it.
  // Allocates nothing. `subject` must be valid UTF-8 (not checked) and `from` the begin of a
  // character or the end. Throws Error when the search exceeds its step or memory limit.
  std::optional<Match> find(std::string_view subject,
                            std::size_t from,
                            RegexScratch& scratch) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code, kept out of this header
  bool has_jit_ = false;
};

}  // namespace graft
