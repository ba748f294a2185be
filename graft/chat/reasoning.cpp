#include "graft/chat/reasoning.h"

#include <algorithm>

namespace graft::chat {
namespace {

constexpr std::string_view kBlank = " \t\r\n";

std::size_t skip_blank(std::string_view text) {
  return std::min(text.find_first_not_of(kBlank), text.size());
}

// Bytes at the end of the text that may be the beginning of the tag, including the whitespace
// before it, which is dropped together with the tag.
std::size_t partial_tag_size(std::string_view text, std::string_view tag) {
  std::size_t begin = text.size();
  for (std::size_t n = std::min(tag.size() - 1, text.size()); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) {
      begin -= n;
      break;
    }
  }
  const std::size_t last = text.substr(0, begin).find_last_not_of(kBlank);
  return text.size() - (last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

ReasoningSplitter::ReasoningSplitter(bool open, const formats::ReasoningTags& tags)
    : tags_(tags), state_(open ? State::Thinking : State::Start), harmony_(open) {}

ResponseDelta ReasoningSplitter::feed(std::string_view text) {
  if (tags_.is_harmony) return harmony_.feed(text);
  held_ += text;
  ResponseDelta out;
  while (advance(out, false)) {}
  return out;
}

ResponseDelta ReasoningSplitter::finish() {
  if (tags_.is_harmony) return harmony_.finish();
  ResponseDelta out;
  while (advance(out, true)) {}
  return out;
}

// One step of the state machine; false when it needs more text.
bool ReasoningSplitter::advance(ResponseDelta& out, bool at_end) {
  switch (state_) {
    case State::Start: {
      const std::string_view text = std::string_view(held_).substr(skip_blank(held_));
      if (text.starts_with(tags_.open)) {
        held_ = text.substr(tags_.open.size());
        state_ = State::Thinking;
        return true;
      }
      if (!at_end && tags_.open.starts_with(text)) return false;
      state_ = State::Content;
      return true;
    }
    case State::Thinking: {
      if (!has_text_) held_.erase(0, skip_blank(held_));
      const std::size_t close = held_.find(tags_.close);
      const bool closed = close != std::string::npos;
      std::size_t end = closed ? close : held_.size() - partial_tag_size(held_, tags_.close);
      if (closed) {
        const std::size_t last = held_.substr(0, close).find_last_not_of(kBlank);
        end = last == std::string::npos ? 0 : last + 1;
      }
      if (at_end && !closed) end = held_.size();
      out.reasoning += held_.substr(0, end);
      has_text_ = has_text_ || end > 0;
      held_.erase(0, closed ? close + tags_.close.size() : end);
      if (closed) state_ = State::AfterThinking;
      return closed;
    }
    case State::AfterThinking:
      held_.erase(0, skip_blank(held_));
      if (held_.empty()) return false;
      state_ = State::Content;
      return true;
    case State::Content:
      out.content += held_;
      held_.clear();
      return false;
  }
  return false;
}

bool ends_in_thinking(std::string_view prompt, const formats::ReasoningTags& tags) {
  const std::size_t last = prompt.find_last_not_of(kBlank);
  return last != std::string_view::npos && prompt.substr(0, last + 1).ends_with(tags.open);
}

}  // namespace graft::chat
