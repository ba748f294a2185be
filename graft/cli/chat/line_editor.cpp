#include "graft/cli/chat/line_editor.h"

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>

#include <histedit.h>

#include "graft/cli/chat/candidates.h"
#include "graft/cli/terminal.h"

namespace graft::cli {
namespace {

constexpr int kHistoryLines = 1000;

// Terminals enclose pasted text in these when asked to.
constexpr const char* kStartBracketedPaste = "\033[?2004h";
constexpr const char* kEndBracketedPaste = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";
// Shown for a line break in a line that is edited.
constexpr wchar_t kShownBreak = L'\u2424';
constexpr std::string_view kShownBreakUtf8 = "\u2424";

// libedit needs a UTF-8 locale for non-ASCII input.
void set_utf8_locale() {
  const char* current = std::setlocale(LC_CTYPE, "");
  if (current == nullptr || std::string_view(current) == "C" ||
      std::string_view(current) == "POSIX")
    std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Terminal {
  Terminal(std::filesystem::path file,
           std::span<const std::string_view> names,
           std::function<std::vector<std::string>()> model_names)
      : edit(::el_init("graft", stdin, stdout, stderr)),
        history(::history_init()),
        history_file(std::move(file)),
        commands(names),
        models(std::move(model_names)) {
    ::el_set(edit, EL_CLIENTDATA, this);
    ::el_set(edit, EL_PROMPT, &Terminal::get_prompt);
    ::el_set(edit, EL_EDITOR, "emacs");
    ::el_set(edit, EL_SIGNAL, 1);  // handles SIGWINCH
    ::el_set(edit, EL_HIST, ::history, history);
    ::el_set(edit, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // While a line is edited, Ctrl-C is an ordinary key: libedit is not safe to interrupt.
    ::el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(edit, EL_ADDFN, "graft-interrupt", "Drop the line", &Terminal::interrupt);
    ::el_set(edit, EL_BIND, "^C", "graft-interrupt", nullptr);
    ::el_set(edit, EL_ADDFN, "graft-suspend", "Suspend the program", &Terminal::suspend);
    ::el_set(edit, EL_BIND, "^Z", "graft-suspend", nullptr);
    ::el_set(edit, EL_ADDFN, "graft-paste", "Insert pasted text", &Terminal::paste);
    ::el_set(edit, EL_BIND, "\\e[200~", "graft-paste", nullptr);
    ::el_set(edit, EL_ADDFN, "graft-complete", "Complete commands and paths",
             &Terminal::complete_word);
    ::el_set(edit, EL_BIND, "^I", "graft-complete", nullptr);
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) ::history(history, &event, H_LOAD, history_file.c_str());
    ::el_source(edit, nullptr);  // ~/.editrc
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    save_history();
    ::history_end(history);
    ::el_end(edit);
  }

  // Readable by the owner only, because it contains prompts.
  void save_history() {
    if (history_file.empty()) return;
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directories(history_file.parent_path(), error);
    ::history(history, &event, H_SAVE, history_file.c_str());
    fs::permissions(history_file, fs::perms::owner_read | fs::perms::owner_write, error);
  }

  static char* get_prompt(EditLine* edit) {
    Terminal* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return self->prompt.data();
  }

  static unsigned char interrupt(EditLine* edit, int /*key*/) {
    Terminal* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    self->interrupted = true;
    return CC_EOF;
  }

  static unsigned char suspend(EditLine* edit, int /*key*/) {
    ::el_set(edit, EL_PREP_TERM, 0);
    std::raise(SIGTSTP);
    ::el_set(edit, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
  }

  static unsigned char paste(EditLine* edit, int /*key*/) {
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(kPasteEnd) && ::el_wgetc(edit, &c) == 1)
      text += c == L'\r' ? L'\n' : c;
    if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
    while (text.ends_with(L'\n'))
      text.pop_back();
    std::ranges::replace(text, L'\n', kShownBreak);
    if (!text.empty() && ::el_winsertstr(edit, text.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  static unsigned char complete_word(EditLine* edit, int /*key*/) {
    Terminal* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    const LineInfo* line = ::el_line(edit);
    const std::string_view text(line->buffer,
                                static_cast<std::size_t>(line->cursor - line->buffer));
    const Candidates found = complete(text, self->commands, self->models);
    if (found.words.empty()) return CC_ERROR;
    std::string start = found.common_start();
    const bool is_one = found.words.size() == 1;
    if (is_one && !start.ends_with('/')) start += ' ';
    if (start.size() > found.replaced) {
      ::el_insertstr(edit, start.substr(found.replaced).c_str());
      return CC_REFRESH;
    }
    std::fputs("\n", stdout);
    for (const std::string& word : found.words)
      std::printf("%s  ", word.c_str());
    std::fputs("\n", stdout);
    return CC_REDISPLAY;
  }

  EditLine* edit;
  History* history;
  HistEvent event = {};
  std::filesystem::path history_file;
  std::span<const std::string_view> commands;
  std::function<std::vector<std::string>()> models;
  std::string prompt;
  bool interrupted = false;
};

LineEditor::LineEditor(std::filesystem::path history_file,
                       std::span<const std::string_view> commands,
                       std::function<std::vector<std::string>()> models) {
  if (!is_terminal(stdin) || !is_terminal(stdout)) return;
  set_utf8_locale();
  terminal_ = std::make_unique<Terminal>(std::move(history_file), commands, std::move(models));
}

LineEditor::~LineEditor() = default;

bool LineEditor::is_interactive() const {
  return terminal_ != nullptr;
}

LineEditor::Event LineEditor::read(const std::string& prompt, std::string& line) {
  line.clear();
  if (!terminal_) return read_pipe(line);
  terminal_->prompt = prompt;
  terminal_->interrupted = false;
  int count = 0;
  std::fputs(kStartBracketedPaste, stdout);
  const char* text = ::el_gets(terminal_->edit, &count);
  std::fputs(kEndBracketedPaste, stdout);
  std::fflush(stdout);
  if (terminal_->interrupted) {
    std::fputs("\n", stdout);
    return Event::Interrupt;
  }
  if (text == nullptr || count <= 0) return Event::End;
  line.assign(text, static_cast<std::size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  if (line.find_first_not_of(" \t") != std::string::npos)
    ::history(terminal_->history, &terminal_->event, H_ENTER, text);
  for (std::size_t at = line.find(kShownBreakUtf8); at != std::string::npos;
       at = line.find(kShownBreakUtf8, at))
    line.replace(at, kShownBreakUtf8.size(), "\n");
  return Event::Line;
}

LineEditor::Event LineEditor::read_pipe(std::string& line) {
  if (!std::getline(std::cin, line)) return Event::End;
  if (line.ends_with('\r')) line.pop_back();
  return Event::Line;
}

}  // namespace graft::cli
