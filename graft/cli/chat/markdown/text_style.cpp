#include "graft/cli/chat/markdown/text_style.h"

#include <algorithm>

#include <utf8proc.h>

namespace graft::cli {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

const utf8proc_uint8_t* utf8_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

// The bytes of the character that a lead byte announces; 1 for every other byte.
std::size_t announced_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xc2 && byte < 0xe0) return 2;
  if (byte >= 0xe0 && byte < 0xf0) return 3;
  return byte >= 0xf0 && byte < 0xf5 ? 4 : 1;
}

// How many bytes at the end may be the start of a character.
std::size_t incomplete_bytes(std::string_view text) {
  const std::size_t max_bytes = std::min<std::size_t>(text.size(), 3);
  for (std::size_t count = 1; count <= max_bytes; ++count) {
    const char byte = text[text.size() - count];
    if ((static_cast<unsigned char>(byte) & 0xc0U) == 0x80) continue;
    return announced_bytes(byte) > count ? count : 0;
  }
  return 0;
}

void append_safe(std::string_view text, std::string& out) {
  while (!text.empty()) {
    utf8proc_int32_t code = -1;
    const auto size =
        utf8proc_iterate(utf8_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &code);
    if (size <= 0) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const bool is_kept =
        code >= 0xa0 || (code >= 0x20 && code < 0x7f) || code == '\n' || code == '\t';
    if (is_kept) {
      out += text.substr(0, static_cast<std::size_t>(size));
    } else if (code != '\r') {
      out += '?';
    }
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string style_code(const TextStyle& style) {
  std::string code = "\033[0";
  if (style.bold) code += ";1";
  if (style.dim) code += ";2";
  if (style.italic) code += ";3";
  if (style.underline) code += ";4";
  if (style.strike) code += ";9";
  if (style.colour != 0) code += ";" + std::to_string(style.colour);
  return code + "m";
}

std::size_t char_bytes(std::string_view text) {
  return std::min(text.size(), announced_bytes(text.front()));
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    utf8proc_int32_t code = -1;
    const auto size =
        utf8proc_iterate(utf8_bytes(text), static_cast<utf8proc_ssize_t>(text.size()), &code);
    columns += size > 0 ? utf8proc_charwidth(code) : 1;
    text.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 1);
  }
  return columns;
}

std::string Sanitizer::feed(std::string_view text) {
  held_ += text;
  const std::size_t size = held_.size() - incomplete_bytes(held_);
  std::string safe;
  safe.reserve(size);
  append_safe(std::string_view(held_).substr(0, size), safe);
  held_.erase(0, size);
  return safe;
}

std::string Sanitizer::finish() {
  std::string safe;
  append_safe(held_, safe);
  held_.clear();
  return safe;
}

}  // namespace graft::cli
