#include "graft/cli/help/unknown_command.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "graft/base/text/str.h"

namespace graft::cli {
namespace {

// Commands of Ollama, llama.cpp and vLLM, and common words for graft's own.
struct ForeignCommand {
  std::string_view name;
  std::string_view advice;
};

constexpr std::array kForeignCommands = {
    ForeignCommand{"list", "`graft models` lists the models"},
    ForeignCommand{"ls", "`graft models` lists the models"},
    ForeignCommand{"ps", "GET /api/ps and the status page of `graft serve` show loaded models"},
    ForeignCommand{"show", "`graft inspect -m NAME` describes a model"},
    ForeignCommand{"info", "`graft inspect -m NAME` describes a model"},
    ForeignCommand{"stop", "POST /api/generate with \"keep_alive\": 0 unloads a model"},
    ForeignCommand{"create", "a running `graft serve` has POST /api/create"},
    ForeignCommand{"cp", "a running `graft serve` has POST /api/copy"},
    ForeignCommand{"push", "graft does not upload models"},
    ForeignCommand{"start", "`graft serve` starts the server"},
    ForeignCommand{"server", "`graft serve` starts the server"},
    ForeignCommand{"download", "`graft pull NAME` downloads a model"},
    ForeignCommand{"remove", "`graft rm NAME` deletes a model"},
    ForeignCommand{"delete", "`graft rm NAME` deletes a model"},
    ForeignCommand{"generate", "`graft run PROMPT` answers a prompt"},
    ForeignCommand{"complete", "`graft run --raw PROMPT` continues a text"},
    ForeignCommand{"version", "`graft --version` prints the version"},
    ForeignCommand{"benchmark", "`graft bench` measures a model"},
    ForeignCommand{"env", "`graft config` lists settings and their environment variables"},
};

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes: two before, before, current.
  std::vector<std::size_t> older;
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    before[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
      current[j] = std::min({before[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], older[j - 2] + 1);
    }
    older = before;
    before = current;
  }
  return before[b.size()];
}

std::string unknown_command(std::string_view word, const std::vector<std::string>& commands) {
  const std::string start = str("unknown command '", word, "'; ");
  const auto* foreign = std::ranges::find(kForeignCommands, word, &ForeignCommand::name);
  if (foreign != kForeignCommands.end()) return str(start, foreign->advice);
  constexpr std::size_t kMaxEdits = 2;
  const std::string* nearest = nullptr;
  std::size_t fewest = std::min(kMaxEdits, word.size() / 2) + 1;
  for (const std::string& command : commands) {
    const std::size_t edits = edit_distance(word, command);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = &command;
  }
  if (nearest != nullptr) return str(start, "did you mean '", *nearest, "'?");
  return str(start, "`graft help` lists the commands");
}

}  // namespace graft::cli
