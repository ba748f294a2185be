#include "graft/cli/run/model_word.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "graft/base/text/ascii.h"

namespace graft::cli {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Models that people run by a name without a digit.
constexpr auto kKnownNames = std::to_array<std::string_view>(
    {"mistral",      "mixtral",       "llama",     "gemma",  "qwen",    "phi",
     "deepseek",     "codellama",     "tinyllama", "vicuna", "falcon",  "starcoder",
     "granite",      "command-r",     "nemotron",  "smollm", "gpt-oss", "deepseek-coder",
     "mistral-nemo", "mistral-small", "qwq",       "glm",    "kimi-k2", "llava"});

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

bool names_remote_model(std::string_view word) {
  for (const std::string_view hub : {"ollama:", "hf:", "ms:", "hf.co/", "https://huggingface.co/"})
    if (word.starts_with(hub) && word.size() > hub.size()) return true;
  const bool is_url = word.starts_with("http://") || word.starts_with("https://");
  return is_url && word.substr(0, word.find('?')).ends_with(".gguf");
}

std::string download_name(const std::string& word) {
  const std::size_t slash = word.find('/');
  return slash == std::string::npos ? "ollama:" + word : word;
}

bool looks_like_model(std::string_view word) {
  if (std::ranges::find(kKnownNames, lower_case(word)) != kKnownNames.end()) return true;
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
