// Kwargs of rules: the texts a rule sets, and the declarations of the keys an operator accepts. The
// plan checks a rule against the declarations of its operator before anything is built, and the
// operator reads its values with the same declarations (BuildContext), so both accept the same.
// To add a kwarg: declare it in builtin_kwargs.h, list it where the operator is registered, read it
// in the operator's constructor, and add it to the table in docs/rules.md (a test compares them).

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graft/ops/params.h"

namespace graft::ops {

// The kwargs of a rule: each value is the text of a YAML scalar.
using Kwargs = std::map<std::string, std::string, std::less<>>;

// A key that an operator accepts, and its values.
struct Kwarg {
  // Text: any value; what plugins declare. Count: an Integer, a percentage ("12%") or "auto".
  enum class Kind : std::uint8_t { Text, Word, Bool, Integer, Number, Count };

  std::string key = {};  // "dtype"
  Kind kind = Kind::Text;
  std::vector<std::string> words = {};  // the values of a Word, in lower case
  // The inclusive range of an Integer, a Number or the integers of a Count.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string fallback = {};  // the value when the rule does not set it
  // Why a module cannot have a value that is valid for others; empty text: it can.
  std::function<std::string(const Params& params, std::string_view value)> conflict = {};
};

// Each returns nullopt for a text that is not a value of the kwarg. Words are compared without case
// and returned in lower case; booleans are written as in YAML or Python.
std::optional<std::string> parse_word(const Kwarg& kwarg, std::string_view text);
std::optional<bool> parse_bool(std::string_view text);
std::optional<std::int64_t> parse_integer(const Kwarg& kwarg, std::string_view text);
std::optional<double> parse_number(const Kwarg& kwarg, std::string_view text);
// A Count as a number of `total` things. A percentage is rounded down, and above 0 % is at least 1.
// Also nullopt for auto.
std::optional<std::int64_t> parse_count(const Kwarg& kwarg,
                                        std::string_view text,
                                        std::int64_t total);
bool is_auto_count(std::string_view text);

// The values in words: "fast or f32", "an integer from 1 to 65536".
std::string values_text(const Kwarg& kwarg);

// What is wrong with a value for a module: "repack is 'maybe', expected true or false". Empty:
// nothing.
std::string value_problem(const Kwarg& kwarg, std::string_view text, const Params& params);

// The text of a kwarg, or its fallback when `kwargs` does not set it.
std::string text_or_fallback(const Kwarg& kwarg, const Kwargs& kwargs);

}  // namespace graft::ops
