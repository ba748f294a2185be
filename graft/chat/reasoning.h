// Splits an answer as it streams into what the model thought and what it says.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace graft::chat {

struct AnswerPart {
  std::string reasoning;
  std::string content;
};

// Models that reason begin their answer with <think> … </think>. Tags and the blank space around
// the thinking belong to neither part. Text that has no tags is content, also where it speaks of
// the tags later on.
class ReasoningSplitter {
 public:
  // `open`: the prompt already ends with <think>, so that the answer begins inside.
  explicit ReasoningSplitter(bool open = false);

  // What became certain; an end that may grow into a tag is held back.
  AnswerPart feed(std::string_view text);
  // The answer has ended: what was held back.
  AnswerPart finish();

  bool is_thinking() const { return state_ == State::Thinking; }

 private:
  enum class State : std::uint8_t { Start, Thinking, AfterThinking, Content };

  bool advance(AnswerPart& out, bool at_end);

  State state_;
  bool has_text_ = false;  // of the thinking, before it only blanks
  std::string held_;
};

// Whether a prompt ends with an open <think>, as templates of reasoning models write it.
bool ends_in_thinking(std::string_view prompt);

}  // namespace graft::chat
