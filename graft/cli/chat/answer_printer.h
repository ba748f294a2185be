// Prints a streamed answer: reasoning dimmed, Markdown rendered on a terminal with colours, control
// characters replaced.

#pragma once

#include <memory>
#include <string>

#include "graft/chat/response_delta.h"

namespace graft::cli {

class AnswerPrinter {
 public:
  // `has_markdown`: render Markdown where standard output is a terminal with colours.
  explicit AnswerPrinter(bool has_markdown);
  AnswerPrinter(const AnswerPrinter&) = delete;
  AnswerPrinter& operator=(const AnswerPrinter&) = delete;
  ~AnswerPrinter();

  void show(const chat::ResponseDelta& part);
  void finish(bool interrupted);

 private:
  struct Markdown;

  void print(const std::string& text);

  std::unique_ptr<Markdown> markdown_;  // null: plain text
  bool thinking_ = false;
  bool at_line_start_ = true;
};

}  // namespace graft::cli
