#include "graft/cli/chat/dropped_images.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "graft/base/text/ascii.h"

namespace graft::cli {
namespace {

constexpr std::string_view kFileUrl = "file://";
constexpr std::array<std::string_view, 6> kImageEndings = {".png",  ".jpg", ".jpeg",
                                                           ".webp", ".gif", ".bmp"};

bool is_image_file(const std::string& name) {
  constexpr std::size_t kMaxPath = 4096;
  const std::string lower = lower_case(name);
  const bool is_image = std::ranges::any_of(
      kImageEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
  std::error_code error;
  return is_image && name.size() < kMaxPath && std::filesystem::is_regular_file(name, error);
}

// The end of the word that begins at `at`: blanks in quotes and after a backslash belong to it.
std::size_t end_of_word(const std::string& line, std::size_t at) {
  char quote = 0;
  bool may_open = true;  // the apostrophe of "it's" opens no quotes
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (may_open && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && at + 1 < line.size()) {
      ++at;
      may_open = true;
    } else if (c == ' ' || c == '\t') {
      break;
    } else {
      may_open = c == '@';
    }
  }
  return at;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    out += is_code ? static_cast<char>(value) : text[i];
    if (is_code) i += 2;
  }
  return out;
}

}  // namespace

std::string typed_path(std::string_view text) {
  if (text.starts_with(kFileUrl)) return percent_decoded(text.substr(kFileUrl.size()));
  std::string path;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote != '\'' && c == '\\' && i + 1 < text.size()) {
      path += text[++i];
    } else {
      path += c;
    }
  }
  return quote == 0 ? path : std::string(text);
}

DroppedImages take_dropped_images(const std::string& line) {
  if (is_image_file(line)) return {.text = "", .paths = {line}};
  DroppedImages found;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = end_of_word(line, at);
    const std::string word = line.substr(at, end - at);
    const std::size_t next = std::min(line.find_first_not_of(" \t", end), line.size());
    const bool is_named = word.starts_with('@');
    const std::string path = typed_path(is_named ? std::string_view(word).substr(1) : word);
    if ((is_named || path.starts_with('/')) && is_image_file(path)) {
      found.paths.emplace_back(path);
    } else {
      found.text += line.substr(at, next - at);
    }
    at = next;
  }
  if (found.paths.empty()) return {.text = line, .paths = {}};
  found.text = trimmed(found.text, " \t");
  return found;
}

}  // namespace graft::cli
