#include "graft/cli/chat/candidates.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> paths_that_start_with(const std::string& text) {
  constexpr std::size_t kMaxPaths = 1000;
  const std::size_t slash = text.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : text.substr(0, slash + 1);
  const std::string start = text.substr(folder.size());
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    // Hidden files only after a typed ".".
    if (!name.starts_with(start) || (start.empty() && name.starts_with('.'))) continue;
    std::error_code ignored;
    paths.push_back(folder + name + (entry.is_directory(ignored) ? "/" : ""));
    if (paths.size() == kMaxPaths) break;
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::string Candidates::common_start() const {
  if (words.empty()) return "";
  std::string start = words[0];
  for (const std::string& word : words)
    start.resize(static_cast<std::size_t>(std::ranges::mismatch(start, word).in1 - start.begin()));
  return start;
}

Candidates complete(std::string_view line,
                    std::span<const std::string_view> commands,
                    const std::function<std::vector<std::string>()>& models) {
  Candidates found;
  const std::size_t space = line.rfind(' ');
  const std::string_view word = space == std::string_view::npos ? line : line.substr(space + 1);
  const bool is_command = line.starts_with('/');
  if (is_command && space == std::string_view::npos) {
    found.replaced = word.size();
    for (const std::string_view command : commands) {
      if (command.starts_with(word.substr(1))) found.words.push_back("/" + std::string(command));
    }
    std::ranges::sort(found.words);
    if (!found.words.empty()) return found;
    found.words = paths_that_start_with(std::string(word));  // a path may begin a message
    return found;
  }
  if (!is_command && !word.starts_with('@')) return found;
  const std::string_view path = is_command ? word : word.substr(1);
  found.replaced = path.size();
  found.words = paths_that_start_with(std::string(path));
  if (line.starts_with("/model ")) {
    for (std::string& name : models()) {
      if (name.starts_with(word)) found.words.push_back(std::move(name));
    }
    std::ranges::sort(found.words);
  }
  return found;
}

}  // namespace graft::cli
