// Regular expressions of rule files and tokenizers, by PCRE2. In rules they stand for Python's
// `re.search`.
//
// The two languages agree on what rules use: search anywhere, anchors, classes, groups, lookaround,
// named groups, `$` before a final newline. They differ in corners: Python's \Z is PCRE2's \z, its
// {,n} is a literal text here (write {0,n}), \uXXXX is \x{XXXX}; and PCRE2 knows more (possessive
// quantifiers, \K, recursion).

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

namespace graft {

// Room for one search at a time, for any pattern. Threads have one each.
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
  struct State;  // of PCRE2
  std::unique_ptr<State> state_;
};

class Regex {
 public:
  // Of the subject, in bytes.
  struct Match {
    std::size_t begin;
    std::size_t end;
  };

  // Throws Error "at 7: missing closing parenthesis": the offset is in bytes, from 0.
  explicit Regex(std::string_view pattern);

  // Whether the pattern is found somewhere in `subject`. Throws Error when the search takes so many
  // steps that the pattern must be a catastrophic one.
  bool search(std::string_view subject) const;

  // The first match that begins at `from` or after it; lookbehind sees what stands before.
  // Allocates nothing. `subject` must be valid UTF-8 (it is not checked) and `from` the begin of a
  // character or the end. Throws Error when the search takes too many steps.
  std::optional<Match> find(std::string_view subject,
                            std::size_t from,
                            RegexScratch& scratch) const;

 private:
  std::shared_ptr<const void> code_;  // pcre2_code, kept out of this header
  bool has_jit_ = false;
};

}  // namespace graft
