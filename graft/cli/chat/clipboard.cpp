#include "graft/cli/chat/clipboard.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graft/cli/chat/markdown/blocks.h"

namespace graft::cli {
namespace {

std::string base64_text(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8U | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= group.size() ? kDigits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

}  // namespace

std::string clipboard_code(std::string_view text) {
  return "\033]52;c;" + base64_text(text) + "\a";
}

std::optional<std::string> last_code_block(std::string_view markdown) {
  std::optional<std::string> last;
  std::optional<CodeFence> fence;
  std::string block;
  while (!markdown.empty()) {
    const std::size_t end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    if (!fence) {
      const auto kind = classify_line(line, true);
      if (kind->kind != MarkdownLine::Kind::Fence) continue;
      fence = parse_fence(line.substr(kind->content));
      block.clear();
    } else if (*closes_fence(*fence, line, true)) {
      last = block;
      fence.reset();
    } else {
      block.append(line).append("\n");
    }
  }
  return fence && !block.empty() ? block : last;
}

}  // namespace graft::cli
