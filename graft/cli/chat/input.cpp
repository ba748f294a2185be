#include "graft/cli/chat/input.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "graft/base/text/ascii.h"
#include "graft/cli/chat/dropped_images.h"
#include "graft/cli/text_file.h"

namespace graft::cli {
namespace {

constexpr std::string_view kQuotes = R"(""")";
constexpr std::string_view kBlank = " \t";

bool is_file(std::string_view name) {
  constexpr std::size_t kMaxPath = 4096;
  std::error_code error;
  return !name.empty() && name.size() < kMaxPath &&
         std::filesystem::is_regular_file(std::filesystem::path(name), error);
}

// `text` is the rest of the line after the opening quotes; reads up to the closing quotes.
Input read_quoted(LineEditor& editor, std::string text) {
  for (;;) {
    const std::size_t end = text.find(kQuotes);
    if (end != std::string::npos) {
      text.resize(end);
      if (text.starts_with('\n')) text.erase(0, 1);
      if (text.ends_with('\n')) text.pop_back();
      return {.kind = text.empty() ? Input::Kind::Nothing : Input::Kind::Message, .text = text};
    }
    std::string line;
    const LineEditor::Event event = editor.read("... ", line);
    if (event == LineEditor::Event::Interrupt) return {};
    // End of input closes the quotes.
    if (event == LineEditor::Event::End)
      return {.kind = text.empty() ? Input::Kind::End : Input::Kind::Message, .text = text};
    text += "\n" + line;
  }
}

}  // namespace

Input read_input(LineEditor& editor, const std::string& prompt) {
  std::string line;
  const LineEditor::Event event = editor.read(prompt, line);
  if (event == LineEditor::Event::Interrupt) return {};
  if (event == LineEditor::Event::End) return {.kind = Input::Kind::End, .text = ""};
  const std::string_view text = trimmed(line, kBlank);
  if (text.empty()) return {};
  if (text.starts_with(kQuotes))
    return read_quoted(editor, std::string(text.substr(kQuotes.size())));
  DroppedImages dropped = take_dropped_images(std::string(text));
  if (!dropped.paths.empty()) {
    const auto kind = dropped.text.empty() ? Input::Kind::Nothing : Input::Kind::Message;
    return {.kind = kind, .text = expand_files(dropped.text), .images = std::move(dropped.paths)};
  }
  if (text.starts_with('/') && !is_file(text))
    return {.kind = Input::Kind::Command, .text = std::string(text)};
  return {.kind = Input::Kind::Message, .text = expand_files(std::string(text))};
}

std::string expand_files(const std::string& line) {
  if (is_file(line)) return read_text_file(line);
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    const std::string word = line.substr(at, end - at);
    const std::string name = word.starts_with('@') ? word.substr(1) : "";
    out += is_file(name) ? read_text_file(name) : word;
    const std::size_t next = std::min(line.find_first_not_of(kBlank, end), line.size());
    out += line.substr(end, next - end);
    at = next;
  }
  return out;
}

}  // namespace graft::cli
