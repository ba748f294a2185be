#include "graft/cli/eval/eval_checks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
// Bytes of non-ASCII characters count as letters.
bool is_word(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

std::string_view strip(std::string_view text) {
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

std::string_view without_think(std::string_view text) {
  const std::string_view stripped = strip(text);
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  if (!stripped.starts_with(kOpen)) return stripped;
  const std::size_t end = stripped.find(kClose);
  return end == std::string_view::npos ? stripped : strip(stripped.substr(end + kClose.size()));
}

// Digits, with a minus sign only at the beginning of the text or after a space.
std::string_view last_number(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1]))
    --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(text[begin - 1]))
    --begin;
  const bool is_negative =
      begin > 0 && text[begin - 1] == '-' && (begin == 1 || is_space(text[begin - 2]));
  return text.substr(begin - (is_negative ? 1 : 0), end - begin + (is_negative ? 1 : 0));
}

bool contains_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_word(text[at - 1]) && text[at - 1] != '-');
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

std::string_view last_word(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0 && !is_letter(text[end - 1]))
    --end;
  std::size_t begin = end;
  while (begin > 0 && is_letter(text[begin - 1]))
    --begin;
  return text.substr(begin, end - begin);
}

bool is_same_json(std::string_view a, std::string_view b) {
  const Json first = Json::parse(a, nullptr, false);
  return !first.is_discarded() && first == Json::parse(b, nullptr, false);
}

// The text between the tags; nothing when there is text outside them.
std::optional<std::string_view> tool_call(std::string_view text) {
  constexpr std::string_view kOpen = "<tool_call>";
  constexpr std::string_view kClose = "</tool_call>";
  if (!text.starts_with(kOpen) || !text.ends_with(kClose)) return std::nullopt;
  text.remove_prefix(kOpen.size());
  text.remove_suffix(std::min(kClose.size(), text.size()));
  return strip(text);
}

bool is_story(std::string_view text, const Json& words) {
  std::istringstream in{std::string(text)};
  std::int64_t num_words = 0;
  for (std::string word; in >> word;)
    ++num_words;
  const std::string all = lower(text);
  return num_words >= 50 && num_words <= 260 && std::ranges::all_of(words, [&](const Json& word) {
           return all.find(lower(word.get<std::string>())) != std::string::npos;
         });
}

using Check = bool (*)(std::string_view answer, std::string_view output);
struct CheckRow {
  std::string_view name;
  Check is_right;
};

constexpr std::array kChecks = {
    CheckRow{"exact",
             [](std::string_view answer, std::string_view output) { return output == answer; }},
    CheckRow{"num", [](std::string_view answer,
                       std::string_view output) { return last_number(output) == answer; }},
    // "orry" stands for Sorry and sorry in the evaluation set and is searched anywhere.
    CheckRow{"contains",
             [](std::string_view answer, std::string_view output) {
               return answer == "orry" ? output.find(answer) != std::string_view::npos
                                       : contains_word(output, answer);
             }},
    CheckRow{"contains_ci",
             [](std::string_view answer, std::string_view output) {
               return lower(output).find(lower(answer)) != std::string::npos;
             }},
    CheckRow{"lastword", [](std::string_view answer,
                            std::string_view output) { return last_word(output) == answer; }},
    CheckRow{"json", [](std::string_view answer,
                        std::string_view output) { return is_same_json(output, answer); }},
    CheckRow{"tool",
             [](std::string_view answer, std::string_view output) {
               const auto got = tool_call(output);
               const auto want = tool_call(answer);
               return got && want && is_same_json(*got, *want);
             }},
    CheckRow{"open", [](std::string_view, std::string_view output) { return !output.empty(); }},
};

}  // namespace

bool is_right(std::string_view check, const Json& answer, std::string_view output) {
  const std::string_view text = without_think(output);
  if (check == "story") {
    if (!answer.is_array()) fail("check \"story\": the answer must be a list of words");
    return is_story(text, answer);
  }
  const auto* row = std::ranges::find(kChecks, check, &CheckRow::name);
  if (row == kChecks.end()) fail("unknown check \"", check, "\"");
  if (!answer.is_string()) fail("check \"", check, "\": the answer must be a string");
  return row->is_right(answer.get_ref<const std::string&>(), text);
}

}  // namespace graft::cli
