#include "graft/server/generation/tool_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "graft/base/error.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";

// Marks around a list of calls say nothing that the calls do not.
constexpr std::array<std::string_view, 2> kIgnored = {"<｜tool▁calls▁begin｜>",
                                                      "<｜tool▁calls▁end｜>"};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string new_call_id() {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::string id = "call_";
  for (int i = 0; i < 24; ++i)
    id += kLetters[random() % kLetters.size()];
  return id;
}

std::optional<ToolCall> call_of(const std::string& name, const OrderedJson& arguments) {
  if (name.empty() || !arguments.is_object()) return std::nullopt;
  return ToolCall{.id = new_call_id(), .name = name, .arguments = ordered_text(arguments)};
}

std::optional<OrderedJson> parsed(std::string_view text) {
  try {
    return parse_ordered_json(text, "call");
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ToolCall> hermes_call(std::string_view body) {
  const std::optional<OrderedJson> json = parsed(body);
  if (!json || !json->is_object()) return std::nullopt;
  const auto name = json->find("name");
  if (name == json->end() || !name->is_string()) return std::nullopt;
  // Some fine-tunes say parameters, and some write an object as text.
  auto arguments = json->find("arguments");
  if (arguments == json->end()) arguments = json->find("parameters");
  if (arguments == json->end()) return call_of(*name, OrderedJson::object());
  if (!arguments->is_string()) return call_of(*name, *arguments);
  const std::optional<OrderedJson> inner = parsed(arguments->get<std::string>());
  return inner ? call_of(*name, *inner) : std::nullopt;
}

std::optional<ToolCall> deepseek_call(std::string_view body) {
  const std::size_t separator = body.find(kDeepSeekSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  std::string_view name = trimmed(body.substr(0, separator));
  std::string_view rest = trimmed(body.substr(separator + kDeepSeekSeparator.size()));
  // V3 and R1: function<sep>name, then the arguments in a fenced block.
  const std::size_t fence = rest.find("```json");
  if (name == "function" && fence != std::string_view::npos) {
    name = trimmed(rest.substr(0, fence));
    rest = rest.substr(fence + 7);
    rest = trimmed(rest.substr(0, rest.rfind("```")));
  }
  const std::optional<OrderedJson> arguments = parsed(rest);
  return arguments ? call_of(std::string(name), *arguments) : std::nullopt;
}

// How many bytes at the end of `text` may be the beginning of `mark`.
std::size_t partial_end(std::string_view text, std::string_view mark) {
  for (std::size_t count = std::min(text.size(), mark.size() - 1); count > 0; --count) {
    if (mark.starts_with(text.substr(text.size() - count))) return count;
  }
  return 0;
}

}  // namespace

struct ToolCallParser::Form {
  std::string_view open;
  std::string_view close;
  std::optional<ToolCall> (*parse)(std::string_view body);
};

std::span<const ToolCallParser::Form> ToolCallParser::forms() {
  static constexpr std::array<Form, 2> kForms = {
      Form{"<tool_call>", "</tool_call>", hermes_call},
      Form{"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", deepseek_call},
  };
  return kForms;
}

std::span<const std::string_view> tool_marks() {
  static constexpr std::array<std::string_view, 4> kMarks = {
      "<tool_call>", "</tool_call>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"};
  return kMarks;
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

// One step; false when nothing more is certain.
bool ToolCallParser::advance(ToolText& out, bool at_end) {
  if (held_.empty() && !(at_end && open_ != nullptr)) return false;
  return open_ == nullptr ? advance_text(out, at_end) : advance_call(out, at_end);
}

bool ToolCallParser::advance_text(ToolText& out, bool at_end) {
  if (after_call_) {
    held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
    if (held_.empty()) return false;
  }
  if (const Mark mark = first_mark(); mark.place != std::string::npos) {
    // Without its blank end: find_last_not_of gives npos, one less than 0, for nothing but blanks.
    const std::string_view before = std::string_view(held_).substr(0, mark.place);
    out.text += before.substr(0, before.find_last_not_of(kBlanks) + 1);
    open_ = mark.form;
    after_call_ = true;
    held_.erase(0, mark.place + mark.text.size());
    return true;
  }
  const std::size_t count = at_end ? held_.size() : num_certain();
  if (count == 0) return false;
  out.text += held_.substr(0, count);
  after_call_ = false;
  held_.erase(0, count);
  return false;
}

ToolCallParser::Mark ToolCallParser::first_mark() const {
  Mark first;
  const auto look_for = [&](std::string_view text, const Form* form) {
    const std::size_t place = held_.find(text);
    if (place < first.place) first = {.place = place, .text = text, .form = form};
  };
  for (const Form& form : forms())
    look_for(form.open, &form);
  for (const std::string_view ignored : kIgnored)
    look_for(ignored, nullptr);
  return first;
}

// Bytes of the held text that no mark can claim, whatever follows.
std::size_t ToolCallParser::num_certain() const {
  std::size_t keep = 0;
  for (const Form& form : forms())
    keep = std::max(keep, partial_end(held_, form.open));
  for (const std::string_view ignored : kIgnored)
    keep = std::max(keep, partial_end(held_, ignored));
  // Blanks before a call are not text, so they wait too.
  const std::string_view certain = std::string_view(held_).substr(0, held_.size() - keep);
  return certain.find_last_not_of(kBlanks) + 1;
}

bool ToolCallParser::advance_call(ToolText& out, bool at_end) {
  const std::size_t close = held_.find(open_->close);
  const bool is_closed = close != std::string::npos;
  if (!is_closed && !at_end) return false;
  const std::string body = held_.substr(0, close);
  held_.erase(0, is_closed ? close + open_->close.size() : held_.size());
  if (auto call = open_->parse(trimmed(body))) {
    out.calls.push_back(*std::move(call));
  } else {
    out.text += open_->open;
    out.text += body;
    if (is_closed) out.text += open_->close;
    after_call_ = false;
  }
  open_ = nullptr;
  return !held_.empty();
}

}  // namespace graft::server
