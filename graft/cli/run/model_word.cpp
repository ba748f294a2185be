#include "graft/cli/run/model_word.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

namespace graft::cli {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

bool names_local_model(const std::string& word, const api::Catalog& catalog) {
  std::error_code error;
  const std::filesystem::path path(word);
  if (path.extension() == ".gguf" && std::filesystem::is_regular_file(path, error)) return true;
  if (std::filesystem::is_regular_file(path / "config.json", error)) return true;
  return catalog.find_name(word).has_value();
}

bool looks_like_model(std::string_view word) {
  const bool has_name_characters = std::ranges::all_of(word, [](char c) {
    return is_letter(c) || is_digit(c) ||
           std::string_view("._:/-").find(c) != std::string_view::npos;
  });
  if (!has_name_characters || word.empty() || !is_letter(word[0])) return false;
  const std::size_t separator = word.find_first_of("/:");
  if (separator != std::string_view::npos) return separator + 1 < word.size();
  return std::ranges::any_of(word, is_digit);
}

}  // namespace graft::cli
