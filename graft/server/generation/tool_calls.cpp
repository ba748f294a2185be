#include "graft/server/generation/tool_calls.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "graft/base/check.h"
#include "graft/base/text/ascii.h"
#include "graft/server/generation/call_syntax.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

constexpr std::string_view kCallBlanks = " \t\r\n";

// DeepSeek's markers around a list of calls.
constexpr std::array<std::string_view, 2> kListMarkers = {"<｜tool▁calls▁begin｜>",
                                                          "<｜tool▁calls▁end｜>"};

constexpr std::array<std::string_view, 2> kMiniMaxListMarkers = {"<minimax:tool_call>",
                                                                 "</minimax:tool_call>"};

constexpr std::array<std::string_view, 2> kKimiListMarkers = {"<|tool_calls_section_begin|>",
                                                              "<|tool_calls_section_end|>"};

constexpr std::array<std::string_view, 2> kDsmlListMarkers = {"<｜DSML｜function_calls>",
                                                              "</｜DSML｜function_calls>"};

// Inside a call. A vocabulary may have them as tokens.
constexpr std::array<std::string_view, 4> kGlmMarks = {"<arg_key>", "</arg_key>", "<arg_value>",
                                                       "</arg_value>"};
constexpr std::array<std::string_view, 1> kDsmlMarks = {"｜DSML｜"};

// Length of the longest suffix of `text` that is a prefix of `marker`.
std::size_t partial_end(std::string_view text, std::string_view marker) {
  for (std::size_t count = std::min(text.size(), marker.size() - 1); count > 0; --count) {
    if (marker.starts_with(text.substr(text.size() - count))) return count;
  }
  return 0;
}

}  // namespace

struct ToolCallParser::Format {
  chat::ToolCallMarkers markers;
  std::span<const std::string_view> ignored;  // markers around a list of calls, dropped
  // Empty: not a call.
  std::vector<ToolCall> (*parse)(std::string_view body, const OrderedJson& tools);
};

std::span<const ToolCallParser::Format> ToolCallParser::formats() const {
  static constexpr std::array<Format, 7> kFormats = {
      Format{chat::kHermesMarkers, {}, parse_hermes},
      Format{chat::kDeepSeekMarkers, kListMarkers, parse_deepseek},
      Format{chat::kMiniMaxMarkers, kMiniMaxListMarkers, parse_minimax},
      Format{chat::kKimiMarkers, kKimiListMarkers, parse_kimi},
      Format{chat::kHarmonyMarkers, {}, parse_harmony},
      Format{chat::kDsmlMarkers, kDsmlListMarkers, parse_dsml},
      Format{chat::kLlamaMarkers, {}, parse_llama},
  };
  if (format_ == ToolCallFormat::Any) return kFormats;
  const auto* found = std::ranges::find(kFormats, format_,
                                        [](const Format& format) { return format.markers.format; });
  GRAFT_CHECK(found != kFormats.end(), "no parser for this format of tool calls");
  return {found, 1};
}

std::vector<std::string_view> tool_marks(ToolCallFormat format) {
  std::vector<std::string_view> marks;
  for (const chat::ToolCallMarkers& markers : chat::tool_call_markers()) {
    const bool is_parsed = format == ToolCallFormat::Any || format == markers.format;
    if (is_parsed) marks.insert(marks.end(), {markers.open, markers.close});
  }
  const auto add_inner = [&](ToolCallFormat of, std::span<const std::string_view> inner) {
    if (format == ToolCallFormat::Any || format == of)
      marks.insert(marks.end(), inner.begin(), inner.end());
  };
  add_inner(ToolCallFormat::Hermes, kGlmMarks);
  add_inner(ToolCallFormat::Dsml, kDsmlMarks);
  return marks;
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
  if (held_.empty() && !(at_end && open_ != nullptr)) return false;
  if (is_at_start_ && format_ == ToolCallFormat::Llama) return advance_whole(out, at_end);
  return open_ == nullptr ? advance_text(out, at_end) : advance_call(out, at_end);
}

// Llama: a response that begins like a list of calls is held back to its end.
bool ToolCallParser::advance_whole(ToolText& out, bool at_end) {
  const std::string_view text = trimmed(held_, kCallBlanks);
  if (text.empty() && !at_end) return false;
  const bool may_be_calls = text.starts_with('[') || text.starts_with('{');
  if (may_be_calls && !at_end) return false;
  is_at_start_ = false;
  std::vector<ToolCall> calls;
  if (may_be_calls) calls = parse_llama(text, tools_);
  if (calls.empty()) return true;
  std::ranges::move(calls, std::back_inserter(out.calls));
  held_.clear();
  return false;
}

bool ToolCallParser::advance_text(ToolText& out, bool at_end) {
  if (after_call_) {
    held_.erase(0, std::min(held_.find_first_not_of(kCallBlanks), held_.size()));
    if (held_.empty()) return false;
  }
  if (const Marker marker = first_marker(); marker.position != std::string::npos) {
    // Without trailing blanks; for blanks only, npos + 1 is 0.
    const std::string_view before = std::string_view(held_).substr(0, marker.position);
    out.text += before.substr(0, before.find_last_not_of(kCallBlanks) + 1);
    open_ = marker.format;
    after_call_ = true;
    held_.erase(0, marker.position + marker.text.size());
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
  const auto look_for = [&](std::string_view text, const Format* format) {
    const std::size_t position = held_.find(text);
    if (position < first.position) first = {position, text, format};
  };
  for (const Format& format : formats()) {
    look_for(format.markers.open, &format);
    for (const std::string_view ignored : format.ignored)
      look_for(ignored, nullptr);
  }
  return first;
}

// Leading bytes of the held text that cannot be part of a marker.
std::size_t ToolCallParser::num_final_bytes() const {
  std::size_t keep = 0;
  for (const Format& format : formats()) {
    keep = std::max(keep, partial_end(held_, format.markers.open));
    for (const std::string_view ignored : format.ignored)
      keep = std::max(keep, partial_end(held_, ignored));
  }
  // Blanks before a call are dropped, so trailing blanks are held back too.
  const std::string_view text = std::string_view(held_).substr(0, held_.size() - keep);
  return text.find_last_not_of(kCallBlanks) + 1;
}

bool ToolCallParser::advance_call(ToolText& out, bool at_end) {
  const std::size_t close = held_.find(open_->markers.close);
  const bool is_closed = close != std::string::npos;
  if (!is_closed && !at_end) return false;
  const std::string body = held_.substr(0, close);
  held_.erase(0, is_closed ? close + open_->markers.close.size() : held_.size());
  std::vector<ToolCall> calls = open_->parse(trimmed(body, kCallBlanks), tools_);
  if (!calls.empty()) {
    std::ranges::move(calls, std::back_inserter(out.calls));
  } else {
    out.text += open_->markers.open;
    out.text += body;
    if (is_closed) out.text += open_->markers.close;
    after_call_ = false;
  }
  open_ = nullptr;
  return !held_.empty();
}

}  // namespace graft::server
