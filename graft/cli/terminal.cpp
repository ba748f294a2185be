#include "graft/cli/terminal.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

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
  return is_terminal(stream) && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
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

void warn(std::string_view text) {
  fmt::print(stderr, "graft: {} {}\n", tinted(Tint::Yellow, "warning:", stderr), text);
}

}  // namespace graft::cli
