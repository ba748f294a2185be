#include "graft/server/generation/tool_calls.h"

#include <algorithm>
#include <utility>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"
#include "graft/server/generation/call_formats.h"
#include "graft/server/generation/call_parameters.h"
#include "graft/server/generation/call_syntax.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

constexpr std::string_view kCallBlanks = " \t\r\n";

// Length of the longest suffix of `text` that is a prefix of `marker`.
std::size_t partial_end(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (std::size_t count = std::min(text.size(), marker.size() - 1); count > 0; --count) {
    if (marker.starts_with(text.substr(text.size() - count))) return count;
  }
  return 0;
}

void drop_front(std::string& text, std::string_view characters) {
  text.erase(0, std::min(text.find_first_not_of(characters), text.size()));
}

}  // namespace

OrderedJson call_arguments(const std::string& text) {
  if (text.empty()) return OrderedJson::object();
  try {
    OrderedJson arguments = parse_ordered_json(text, "arguments");
    if (arguments.is_object()) return arguments;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    // Cut off, or not JSON.
  }
  return {{"unparsed", text}};
}

void join_calls(std::vector<ToolCall>& calls, std::vector<ToolCall> pieces) {
  for (ToolCall& piece : pieces) {
    const auto found = std::ranges::find(calls, piece.index, &ToolCall::index);
    if (found == calls.end()) {
      calls.push_back(std::move(piece));
    } else {
      found->arguments += piece.arguments;
    }
  }
}

ToolCallParser::ToolCallParser(ToolCallOptions options) : options_(std::move(options)) {
  // Without a marker of its own, a call is the whole response.
  if (options_.format == ToolCallFormat::Llama || options_.format == ToolCallFormat::Any)
    state_ = State::Start;
}

ToolText ToolCallParser::feed(std::string_view text) {
  held_ += text;
  ToolText out;
  while (advance(out, false)) {}
  return out;
}

ToolText ToolCallParser::finish() {
  ToolText out;
  while (advance(out, true)) {}
  return out;
}

// One step; false when it needs more text.
bool ToolCallParser::advance(ToolText& out, bool at_end) {
  switch (state_) {
    case State::Start:
      return advance_start(out, at_end);
    case State::Text:
      return advance_text(out, at_end);
    case State::Head:
      return advance_head(out, at_end);
    case State::Arguments:
      return advance_arguments(out, at_end);
    case State::Parameters:
      return advance_parameters(out, at_end);
    case State::Broken:
      return advance_broken(out, at_end);
    case State::Tail:
      return advance_tail(out, at_end);
    case State::Thinking:
      return advance_thinking(out, at_end);
    case State::Done:
      held_.clear();
      return false;
  }
  return false;
}

bool ToolCallParser::is_declared(std::string_view name) const {
  if (find_tool(options_.tools, name) != nullptr) return true;
  return options_.format == ToolCallFormat::Llama && options_.tools.empty();
}

// A response that begins like a JSON object or a list may be calls without a marker. Objects are
// calls once they name a tool of the request; a list in Python's syntax is held back to its end.
bool ToolCallParser::advance_start(ToolText& out, bool at_end) {
  const std::string_view text = trimmed(held_, kCallBlanks);
  if (text.empty() && !at_end) return false;
  const bool may_be_calls = text.starts_with('[') || text.starts_with('{');
  const CallHead head = may_be_calls ? object_head(held_) : CallHead{.kind = CallHead::Kind::Other};
  if (head.kind == CallHead::Kind::Incomplete && !at_end) return false;
  if (head.kind == CallHead::Kind::Json && is_declared(head.name)) {
    open_ = &bare_json_format();
    begin_call(out, head);
    held_.erase(0, head.size);
    state_ = State::Arguments;
    return true;
  }
  const bool may_be_whole =
      may_be_calls && head.kind != CallHead::Kind::Json && options_.format == ToolCallFormat::Llama;
  if (may_be_whole && !at_end) return false;
  state_ = State::Text;
  if (!may_be_whole || parse_llama(text, options_.tools).empty()) return true;
  open_ = &bare_json_format();
  return advance_whole(out, at_end);
}

bool ToolCallParser::advance_text(ToolText& out, bool at_end) {
  if (after_call_) {
    drop_front(held_, kCallBlanks);
    const std::string_view think = options_.reasoning.is_harmony ? "" : options_.reasoning.open;
    if (!held_.empty() && !think.empty() && held_.starts_with(think)) {
      held_.erase(0, think.size());
      thinking_ = chat::ReasoningSplitter(true, options_.reasoning);
      is_new_reasoning_ = true;
      state_ = State::Thinking;
      return true;
    }
    if (held_.empty() || (!at_end && think.starts_with(held_))) return false;
  }
  if (held_.empty()) return false;
  if (const Marker marker = first_marker(); marker.position != std::string::npos) {
    // Without trailing blanks; for blanks only, npos + 1 is 0.
    const std::string_view before = std::string_view(held_).substr(0, marker.position);
    out.text += before.substr(0, before.find_last_not_of(kCallBlanks) + 1);
    open_ = marker.format;
    after_call_ = true;
    held_.erase(0, marker.position + marker.text.size());
    if (open_ != nullptr) state_ = State::Head;
    return true;
  }
  const std::size_t count = at_end ? held_.size() : num_final_bytes();
  if (count == 0) return false;
  out.text += held_.substr(0, count);
  after_call_ = false;
  held_.erase(0, count);
  return false;
}

ToolCallParser::Marker ToolCallParser::first_marker() const {
  Marker first;
  const auto look_for = [&](std::string_view text, const CallFormat* format) {
    const std::size_t position = held_.find(text);
    if (position < first.position) first = {position, text, format};
  };
  for (const CallFormat& format : call_formats(options_.format)) {
    look_for(format.markers.open, &format);
    for (const std::string_view ignored : format.ignored)
      look_for(ignored, nullptr);
  }
  return first;
}

// Leading bytes of the held text that cannot be part of a marker.
std::size_t ToolCallParser::num_final_bytes() const {
  std::size_t keep = 0;
  for (const CallFormat& format : call_formats(options_.format)) {
    keep = std::max(keep, partial_end(held_, format.markers.open));
    for (const std::string_view ignored : format.ignored)
      keep = std::max(keep, partial_end(held_, ignored));
  }
  // Blanks before a call are dropped, so trailing blanks are held back too.
  const std::string_view text = std::string_view(held_).substr(0, held_.size() - keep);
  return text.find_last_not_of(kCallBlanks) + 1;
}

std::string_view ToolCallParser::close_marker() const {
  return open_->markers.close;
}

bool ToolCallParser::advance_head(ToolText& out, bool at_end) {
  const std::string_view close = close_marker();
  const std::size_t end = close.empty() ? std::string::npos : held_.find(close);
  const CallHead head = open_->head(std::string_view(held_).substr(0, end));
  if (head.kind == CallHead::Kind::Json) {
    begin_call(out, head);
    held_.erase(0, head.size);
    state_ = State::Arguments;
    return true;
  }
  if (head.kind == CallHead::Kind::Parameters && begin_parameters(out, head, at_end)) return true;
  if (end == std::string::npos && !at_end) return false;
  return advance_whole(out, at_end);
}

// True once the head is certain: the first parameter is complete, or the call has none.
bool ToolCallParser::begin_parameters(ToolText& out, const CallHead& head, bool at_end) {
  const ParameterStep step = next_parameter(std::string_view(held_).substr(head.size), *head.syntax,
                                            close_marker(), at_end);
  const bool is_parameter = step.kind == ParameterStep::Kind::Parameter &&
                            !parameter_value(options_.tools, head.name, step).empty();
  if (head.name.empty() || (!is_parameter && step.kind != ParameterStep::Kind::End)) return false;
  begin_call(out, head);
  held_.erase(0, head.size);
  syntax_ = head.syntax;
  keys_.clear();
  state_ = State::Parameters;
  return true;
}

// A call whose text is complete, or text after all.
bool ToolCallParser::advance_whole(ToolText& out, bool at_end) {
  const std::string_view close = close_marker();
  const std::size_t end = close.empty() ? std::string::npos : held_.find(close);
  const bool is_closed = end != std::string::npos;
  GRAFT_CHECK(is_closed || at_end, "the call is not complete");
  const std::string body = held_.substr(0, end);
  held_.erase(0, is_closed ? end + close.size() : held_.size());
  std::vector<ToolCall> calls;
  if (open_->parse != nullptr) calls = open_->parse(trimmed(body, kCallBlanks), options_.tools);
  if (options_.single_call && calls.size() > 1) calls.resize(1);
  for (ToolCall& call : calls) {
    if (open_->has_short_ids) call.id = new_call_id(true);
    call.index = num_calls_++;
    out.calls.push_back(std::move(call));
  }
  if (calls.empty()) out.text += str(open_->markers.open, body, is_closed ? close : "");
  if (!calls.empty()) end_call();
  after_call_ = !calls.empty();
  if (calls.empty()) state_ = State::Text;
  return true;
}

bool ToolCallParser::advance_arguments(ToolText& out, bool at_end) {
  if (held_.empty() && !at_end) return false;
  std::string_view text = held_;
  bool is_closed = false;
  if (open_->has_tokens && !close_marker().empty()) {
    const std::size_t end = text.find(close_marker());
    is_closed = end != std::string_view::npos;
    if (is_closed) {
      text = text.substr(0, end);
    } else if (!at_end) {
      text.remove_suffix(partial_end(text, close_marker()));
    }
  }
  const std::size_t size = scanner_.scan(text);
  add_arguments(out, text.substr(0, size));
  const bool is_cut = size == text.size() && !scanner_.is_done() && (is_closed || at_end);
  held_.erase(0, size);
  if (scanner_.is_broken()) state_ = State::Broken;
  if (scanner_.is_done() || is_cut) state_ = State::Tail;
  return state_ != State::Arguments;
}

bool ToolCallParser::advance_parameters(ToolText& out, bool at_end) {
  const ParameterStep step = next_parameter(held_, *syntax_, close_marker(), at_end);
  if (step.kind == ParameterStep::Kind::Incomplete) return false;
  if (step.kind == ParameterStep::Kind::End) {
    add_arguments(out, keys_.empty() ? "{}" : "}");
    held_.erase(0, step.size);
    end_call();
    return true;
  }
  std::string value;
  if (step.kind == ParameterStep::Kind::Parameter &&
      std::ranges::find(keys_, step.key) == keys_.end())
    value = parameter_value(options_.tools, name_, step);
  if (value.empty()) {
    state_ = State::Broken;
    return true;
  }
  add_arguments(out,
                str(keys_.empty() ? "{" : ",", ordered_text(OrderedJson(step.key)), ":", value));
  keys_.push_back(step.key);
  held_.erase(0, step.size);
  return true;
}

// The rest of a malformed call, up to its closing marker, is appended to its arguments.
bool ToolCallParser::advance_broken(ToolText& out, bool at_end) {
  const std::string_view close = close_marker();
  const std::size_t end = close.empty() ? std::string::npos : held_.find(close);
  if (end != std::string::npos || at_end) {
    add_arguments(out, std::string_view(held_).substr(0, end));
    held_.erase(0, end == std::string::npos ? held_.size() : end + close.size());
    end_call();
    return true;
  }
  const std::size_t size = held_.size() - partial_end(held_, close);
  add_arguments(out, std::string_view(held_).substr(0, size));
  held_.erase(0, size);
  return false;
}

bool ToolCallParser::advance_tail(ToolText& out, bool at_end) {
  drop_front(held_, str(kCallBlanks, open_->tail));
  const std::string_view close = close_marker();
  if (!close.empty() && held_.starts_with(close)) {
    held_.erase(0, close.size());
    end_call();
    return true;
  }
  if (!at_end && (held_.empty() || close.starts_with(held_))) return false;
  if (held_.empty() || close.starts_with(held_)) {
    held_.clear();
    end_call();
    return true;
  }
  // Some models write the id after the arguments.
  const CallHead member =
      open_->tail.empty() ? CallHead{.kind = CallHead::Kind::Other} : text_member(held_);
  if (member.kind == CallHead::Kind::Incomplete && !at_end) return false;
  if (member.kind == CallHead::Kind::Json) {
    held_.erase(0, member.size);
    return true;
  }
  // The next call of a list.
  if (held_.starts_with('{') && !options_.single_call && !open_->tail.empty()) {
    state_ = State::Head;
    return true;
  }
  const std::size_t end = close.empty() ? 0 : held_.find(close);
  if (end == std::string::npos && !at_end) return false;
  // The arguments are complete; other text before the closing marker stays text.
  if (!options_.single_call) out.text += held_.substr(0, end);
  held_.erase(0, end == std::string::npos ? held_.size() : end + close.size());
  end_call();
  return true;
}

bool ToolCallParser::advance_thinking(ToolText& out, bool at_end) {
  chat::ResponseDelta part = thinking_.feed(std::exchange(held_, {}));
  if (at_end) {
    const chat::ResponseDelta rest = thinking_.finish();
    part.reasoning += rest.reasoning;
    part.content += rest.content;
  }
  if (!part.reasoning.empty()) {
    // Blocks are separated by a blank line.
    if (std::exchange(is_new_reasoning_, false)) {
      out.is_first_reasoning = out.is_first_reasoning || !has_reasoning_;
      out.reasoning += has_reasoning_ ? "\n\n" : "";
      has_reasoning_ = true;
    }
    out.reasoning += part.reasoning;
  }
  held_ = std::move(part.content);
  if (thinking_.is_thinking() && !at_end) return false;
  state_ = State::Text;
  return true;
}

void ToolCallParser::begin_call(ToolText& out, const CallHead& head) {
  name_ = head.name;
  scanner_ = {};
  out.calls.push_back({.index = num_calls_++,
                       .id = head.id.empty() ? new_call_id(open_->has_short_ids) : head.id,
                       .name = head.name});
}

void ToolCallParser::add_arguments(ToolText& out, std::string_view text) {
  if (text.empty()) return;
  const std::size_t index = num_calls_ - 1;
  if (out.calls.empty() || out.calls.back().index != index) out.calls.push_back({.index = index});
  out.calls.back().arguments += text;
}

void ToolCallParser::end_call() {
  after_call_ = true;
  state_ = options_.single_call ? State::Done : State::Text;
}

}  // namespace graft::server
