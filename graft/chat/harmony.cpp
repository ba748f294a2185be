#include "graft/chat/harmony.h"

#include <algorithm>
#include <array>

#include "graft/base/text/str.h"
#include "graft/chat/tool_format.h"

namespace graft::chat {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";

// What a response begins with, unless the prompt wrote the header.
constexpr std::array<std::string_view, 4> kBeginnings = {kChannel, kStart, kMessage, " to="};
// What ends a message; a missing end token is tolerated.
constexpr std::array<std::string_view, 4> kEnds = {"<|end|>", "<|return|>", "<|call|>", kStart};

// The text after `key` up to a blank or a marker; empty: the header does not have it.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + key.size());
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

// Bytes at the end of the text that may be the beginning of a marker.
std::size_t partial_marker_size(std::string_view text) {
  std::size_t most = 0;
  for (const std::string_view marker : kEnds) {
    for (std::size_t n = std::min(marker.size() - 1, text.size()); n > most; --n) {
      if (text.ends_with(marker.substr(0, n))) most = n;
    }
  }
  return most;
}

}  // namespace

HarmonySplitter::HarmonySplitter(bool open)
    : state_(open ? State::Body : State::Start),
      kind_(open ? Kind::Reasoning : Kind::Content),
      is_new_(open) {}

ResponseDelta HarmonySplitter::feed(std::string_view text) {
  held_ += text;
  ResponseDelta out;
  while (advance(out, false)) {}
  return out;
}

ResponseDelta HarmonySplitter::finish() {
  ResponseDelta out;
  while (advance(out, true)) {}
  if (state_ == State::Body) end_message(out);
  return out;
}

// One step of the state machine; false when it needs more text.
bool HarmonySplitter::advance(ResponseDelta& out, bool at_end) {
  switch (state_) {
    case State::Start:
      return advance_start(at_end);
    case State::Header:
      return advance_header(out);
    case State::Body:
      return advance_body(out, at_end);
    case State::Between: {
      // Only a next message may follow.
      const std::size_t start = held_.find(kStart);
      if (start == std::string::npos) return false;
      held_.erase(0, start + kStart.size());
      state_ = State::Header;
      return true;
    }
  }
  return false;
}

bool HarmonySplitter::advance_start(bool at_end) {
  const std::string_view text = held_;
  bool may_begin = false;
  for (const std::string_view beginning : kBeginnings) {
    if (text.starts_with(beginning)) {
      state_ = State::Header;
      return true;
    }
    may_begin = may_begin || beginning.starts_with(text);
  }
  if (may_begin && !at_end) return false;
  // Text without a header: the prompt wrote it.
  state_ = State::Body;
  is_new_ = true;
  return !held_.empty();
}

bool HarmonySplitter::advance_header(ResponseDelta& out) {
  const std::size_t end = held_.find(kMessage);
  if (end == std::string::npos) return false;
  begin_message(out, std::string_view(held_).substr(0, end));
  held_.erase(0, end + kMessage.size());
  state_ = State::Body;
  return true;
}

bool HarmonySplitter::advance_body(ResponseDelta& out, bool at_end) {
  std::size_t end = std::string::npos;
  std::string_view marker;
  for (const std::string_view one : kEnds) {
    const std::size_t at = held_.find(one);
    if (at < end) {
      end = at;
      marker = one;
    }
  }
  if (end == std::string::npos) {
    const std::size_t count = held_.size() - (at_end ? 0 : partial_marker_size(held_));
    add(out, std::string_view(held_).substr(0, count));
    held_.erase(0, count);
    return false;
  }
  add(out, std::string_view(held_).substr(0, end));
  end_message(out);
  held_.erase(0, end + (marker == kStart ? 0 : marker.size()));
  state_ = State::Between;
  return true;
}

void HarmonySplitter::begin_message(ResponseDelta& out, std::string_view header) {
  const std::string_view recipient = value_of(header, kRecipient);
  is_new_ = true;
  if (recipient.starts_with(kFunctions)) {
    kind_ = Kind::Call;
    out.content += str(kHarmonyMarkers.open, recipient.substr(kFunctions.size()), kMessage);
    return;
  }
  kind_ = value_of(header, kChannel) == "analysis" ? Kind::Reasoning : Kind::Content;
}

void HarmonySplitter::end_message(ResponseDelta& out) {
  if (kind_ == Kind::Call) out.content += kHarmonyMarkers.close;
  kind_ = Kind::Content;
}

// Messages of one kind are separated by a blank line.
void HarmonySplitter::add(ResponseDelta& out, std::string_view text) {
  if (text.empty()) return;
  if (kind_ == Kind::Call) {
    out.content += text;
    return;
  }
  const bool is_reasoning = kind_ == Kind::Reasoning;
  std::string& to = is_reasoning ? out.reasoning : out.content;
  bool& has_text = is_reasoning ? has_reasoning_ : has_content_;
  if (is_new_ && has_text) to += "\n\n";
  to += text;
  has_text = true;
  is_new_ = false;
}

}  // namespace graft::chat
