#include "graft/ops/kwargs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"

namespace graft::ops {
namespace {

// The whole text as a number; nullopt when it is not one.
template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// "f32, f16 or bf16"
std::string alternatives(const std::vector<std::string>& words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 == words.size() ? " or " : ", ";
    list += words[i];
  }
  return list;
}

// " from 1 to 65536", " of at least 1", " of at most 8" or nothing.
std::string range_text(const Kwarg& kwarg) {
  const bool has_min = std::isfinite(kwarg.min);
  const bool has_max = std::isfinite(kwarg.max);
  if (has_min && has_max) return str(" from ", kwarg.min, " to ", kwarg.max);
  if (has_min) return str(" of at least ", kwarg.min);
  return has_max ? str(" of at most ", kwarg.max) : std::string();
}

bool is_value(const Kwarg& kwarg, std::string_view text) {
  switch (kwarg.kind) {
    case Kwarg::Kind::Word:
      return parse_word(kwarg, text).has_value();
    case Kwarg::Kind::Bool:
      return parse_bool(text).has_value();
    case Kwarg::Kind::Integer:
      return parse_integer(kwarg, text).has_value();
    case Kwarg::Kind::Number:
      return parse_number(kwarg, text).has_value();
    case Kwarg::Kind::Count:
      return is_auto_count(text) || parse_count(kwarg, text, 0).has_value();
    case Kwarg::Kind::Text:
      break;
  }
  return true;
}

}  // namespace

std::optional<std::string> parse_word(const Kwarg& kwarg, std::string_view text) {
  std::string word = lower_case(text);
  if (std::find(kwarg.words.begin(), kwarg.words.end(), word) == kwarg.words.end())
    return std::nullopt;
  return word;
}

std::optional<bool> parse_bool(std::string_view text) {
  constexpr std::array<std::string_view, 3> kTrue = {"true", "True", "TRUE"};
  constexpr std::array<std::string_view, 3> kFalse = {"false", "False", "FALSE"};
  if (std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end()) return false;
  return std::nullopt;
}

std::optional<std::int64_t> parse_integer(const Kwarg& kwarg, std::string_view text) {
  const auto value = parse_whole<std::int64_t>(text);
  if (!value) return std::nullopt;
  const auto number = static_cast<double>(*value);
  return number >= kwarg.min && number <= kwarg.max ? value : std::nullopt;
}

std::optional<double> parse_number(const Kwarg& kwarg, std::string_view text) {
  const auto value = parse_whole<double>(text);
  const bool is_in_range =
      value && std::isfinite(*value) && *value >= kwarg.min && *value <= kwarg.max;
  return is_in_range ? value : std::nullopt;
}

std::optional<std::int64_t> parse_count(const Kwarg& kwarg,
                                        std::string_view text,
                                        std::int64_t total) {
  if (!text.ends_with('%')) return parse_integer(kwarg, text);
  const auto percent = parse_whole<double>(text.substr(0, text.size() - 1));
  const bool is_percentage = percent && *percent >= 0 && *percent <= 100;
  if (!is_percentage) return std::nullopt;
  const auto count = static_cast<std::int64_t>(*percent / 100 * static_cast<double>(total));
  return count == 0 && *percent > 0 ? 1 : count;
}

bool is_auto_count(std::string_view text) {
  return equal_ignoring_case(text, "auto");
}

std::string values_text(const Kwarg& kwarg) {
  switch (kwarg.kind) {
    case Kwarg::Kind::Word:
      return alternatives(kwarg.words);
    case Kwarg::Kind::Bool:
      return "true or false";
    case Kwarg::Kind::Integer:
      return "an integer" + range_text(kwarg);
    case Kwarg::Kind::Number:
      return "a number" + range_text(kwarg);
    case Kwarg::Kind::Count:
      return str("an integer", range_text(kwarg), ", a percentage or auto");
    case Kwarg::Kind::Text:
      break;
  }
  return "text";
}

std::string value_problem(const Kwarg& kwarg, std::string_view text, const Params& params) {
  if (!is_value(kwarg, text))
    return str(kwarg.key, " is '", text, "', expected ", values_text(kwarg));
  return kwarg.conflict ? kwarg.conflict(params, text) : std::string();
}

std::string text_or_fallback(const Kwarg& kwarg, const Kwargs& kwargs) {
  const auto found = kwargs.find(kwarg.key);
  return found == kwargs.end() ? kwarg.fallback : found->second;
}

}  // namespace graft::ops
