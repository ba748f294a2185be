#include "graft/cli/terminal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "graft/base/error.h"

namespace graft::cli {
namespace {

constexpr std::array<std::string_view, 6> kStart = {"\033[1m",  "\033[2m",  "\033[31m",
                                                    "\033[32m", "\033[33m", "\033[36m"};

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1;
}

bool has_colours(std::FILE* stream) {
  const std::string_view term = variable("TERM");
  return is_terminal(stream) && variable("NO_COLOR").empty() && !term.empty() && term != "dumb";
}

std::string tinted(Tint tint, std::string_view text, std::FILE* stream) {
  return fmt::format("{}{}{}", tint_start(tint, stream), text, tint_end(stream));
}

std::string_view tint_start(Tint tint, std::FILE* stream) {
  return has_colours(stream) ? kStart[static_cast<std::size_t>(tint)] : std::string_view();
}

std::string_view tint_end(std::FILE* stream) {
  return has_colours(stream) ? "\033[0m" : std::string_view();
}

std::string terminal_safe(std::string_view text) {
  constexpr unsigned char kFirstOfC1 = 0xc2;  // U+0080 to U+009F are C2 80 to C2 9F in UTF-8
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool is_c1 = byte == kFirstOfC1 && next >= 0x80 && next < 0xa0;
    const bool is_c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    safe += is_c0 || is_c1 ? '?' : text[i];
    if (is_c1) ++i;
  }
  return safe;
}

void flush_output() {
  errno = 0;
  const bool is_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!is_lost) return;
  const int error = errno;
  fail("standard output: cannot write", error == 0 ? "" : str(": ", std::strerror(error)));
}

int terminal_columns(std::FILE* stream) {
  winsize size = {};
  if (!is_terminal(stream) || ::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string wrapped(std::string_view text, int columns) {
  const auto width = static_cast<std::size_t>(columns);
  std::string out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t gap = line.rfind("  ");
    const std::size_t start = gap == std::string_view::npos ? 0 : gap + 2;
    const std::string indent(start < width / 2 ? start : 4, ' ');
    std::size_t used = 0;  // columns before the rest of the line
    while (used + line.size() > width) {
      const std::size_t first_text = used == 0 ? start : 0;
      const std::size_t blank = line.rfind(' ', width - used);
      if (blank == std::string_view::npos || blank <= first_text) break;
      out.append(line.substr(0, blank)).append("\n").append(indent);
      line.remove_prefix(blank + 1);
      used = indent.size();
    }
    out.append(line).append("\n");
  }
  return out;
}

void warn(std::string_view text) {
  fmt::print(stderr, "graft: {} {}\n", tinted(Tint::Yellow, "warning:", stderr), text);
}

}  // namespace graft::cli
