#include "graft/tokenizer/steps/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <utf8proc.h>

namespace graft::tokenizer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::uint8_t at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// Well-formed UTF-8 by first byte (Unicode, table 3-7): length and range of the second byte.
struct Lead {
  std::size_t bytes;  // 0: not a valid first byte
  std::uint8_t low;
  std::uint8_t high;
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// How many bytes of the first character of `text` are present and valid.
std::size_t valid_bytes(std::string_view text, const Lead& lead) {
  std::size_t count = 1;
  while (count < lead.bytes && count < text.size()) {
    const std::uint8_t byte = at(text, count);
    const bool is_valid = count == 1 ? byte >= lead.low && byte <= lead.high : (byte >> 6U) == 2;
    if (!is_valid) break;
    ++count;
  }
  return count;
}

std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (i < text.size() && at(text, i) < 0x80)
    ++i;
  return i;
}

}  // namespace

Character first_character(std::string_view text) {
  const std::uint8_t first = at(text, 0);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0 || valid_bytes(text, lead) != lead.bytes) return {-1, 1};
  auto code = static_cast<std::int32_t>(first & (0xFFU >> (lead.bytes + 1)));
  for (std::size_t i = 1; i < lead.bytes; ++i)
    code = code * 64 + (at(text, i) & 0x3F);
  return {code, lead.bytes};
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t i = 0;
  while (true) {
    i += ascii_prefix(text.substr(i));
    if (i == text.size()) return i;
    const std::string_view rest = text.substr(i);
    const Lead lead = lead_of(at(rest, 0));
    if (lead.bytes == 0 || valid_bytes(rest, lead) != lead.bytes) return i;
    i += lead.bytes;
  }
}

std::size_t incomplete_suffix(std::string_view text) {
  const std::size_t longest = std::min<std::size_t>(3, text.size());
  for (std::size_t length = 1; length <= longest; ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    const std::uint8_t first = at(tail, 0);
    if ((first >> 6U) == 2) continue;  // continuation byte
    const Lead lead = lead_of(first);
    return lead.bytes > length && valid_bytes(tail, lead) == length ? length : 0;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    const Lead lead = lead_of(at(text, 0));
    out += kReplacement;
    text.remove_prefix(lead.bytes == 0 ? 1 : valid_bytes(text, lead));
  }
  return out;
}

void append_utf8(std::int32_t code, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(code, bytes.data());
  out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

bool is_whitespace(std::int32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  if (code == 0x85) return true;
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_word_character(std::int32_t code) {
  if (code < 0) return false;
  // Joiners, and circled and squared letters, which are alphabetic by a property utf8proc lacks.
  if (code == 0x200C || code == 0x200D) return true;
  if (code >= 0x24B6 && code <= 0x24E9) return true;
  if (code >= 0x1F130 && code <= 0x1F189) {
    return code <= 0x1F149 || (code >= 0x1F150 && code <= 0x1F169) || code >= 0x1F170;
  }
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::int32_t to_lower(std::int32_t code) {
  return utf8proc_tolower(code);
}

}  // namespace graft::tokenizer
