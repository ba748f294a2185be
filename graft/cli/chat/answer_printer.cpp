#include "graft/cli/chat/answer_printer.h"

#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "graft/cli/chat/markdown/markdown.h"
#include "graft/cli/chat/markdown/wrap_writer.h"
#include "graft/cli/terminal.h"

namespace graft::cli {
namespace {

int answer_columns() {
  constexpr int kDefaultColumns = 80;
  const int columns = terminal_columns(stdout);
  return columns > 0 ? columns : kDefaultColumns;
}

void write_stdout(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

struct AnswerPrinter::Markdown {
  WrapWriter writer{write_stdout, answer_columns};
  MarkdownRenderer reasoning{writer, {.dim = true}};
  MarkdownRenderer content{writer};
};

AnswerPrinter::AnswerPrinter(bool has_markdown)
    : markdown_(has_markdown && has_colours(stdout) ? std::make_unique<Markdown>() : nullptr) {}

AnswerPrinter::~AnswerPrinter() = default;

void AnswerPrinter::show(const chat::ResponseDelta& part) {
  if (!part.reasoning.empty()) {
    if (markdown_) {
      markdown_->reasoning.feed(part.reasoning);
    } else {
      if (!thinking_) fmt::print("{}", tint_start(Tint::Dim, stdout));
      print(part.reasoning);
    }
    thinking_ = true;
  }
  if (!part.content.empty()) {
    if (thinking_ && markdown_) {
      markdown_->reasoning.finish();
      fmt::print("\n");
    } else if (thinking_) {
      fmt::print("{}\n\n", tint_end(stdout));
    }
    thinking_ = false;
    if (markdown_) {
      markdown_->content.feed(part.content);
    } else {
      print(part.content);
    }
  }
  std::fflush(stdout);
}

void AnswerPrinter::finish(bool interrupted) {
  if (markdown_) {
    if (thinking_) markdown_->reasoning.finish();
    markdown_->content.finish();
    if (interrupted) fmt::print("{}\n", tinted(Tint::Dim, "(stopped)", stdout));
  } else {
    if (thinking_) fmt::print("{}", tint_end(stdout));
    if (interrupted) fmt::print("{}", tinted(Tint::Dim, " (stopped)", stdout));
    if (!at_line_start_ || interrupted) fmt::print("\n");
  }
  std::fflush(stdout);
}

void AnswerPrinter::print(const std::string& text) {
  const std::string safe = terminal_safe(text);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
  at_line_start_ = text.ends_with('\n');
}

}  // namespace graft::cli
