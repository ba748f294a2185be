// What Tab completes in a chat: commands, paths after @ or a command, and model names.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

struct Candidates {
  std::size_t replaced = 0;        // characters at the end of the line that a candidate replaces
  std::vector<std::string> words;  // sorted; a folder ends in "/"

  std::string common_start() const;  // of all words
};

// `line` is the text before the cursor; `commands` are names without "/"; `models` returns the
// names that /model completes beside paths.
Candidates complete(std::string_view line,
                    std::span<const std::string_view> commands,
                    const std::function<std::vector<std::string>()>& models);

}  // namespace graft::cli
