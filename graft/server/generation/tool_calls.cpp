#include "graft/server/generation/tool_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "graft/base/check.h"
#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/server/json_text.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

constexpr std::string_view kCallBlanks = " \t\r\n";
constexpr std::string_view kDeepSeekSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kHarmonySeparator = "<|message|>";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kFunctionClose = "</function>";

// DeepSeek's markers around a list of calls.
constexpr std::array<std::string_view, 2> kListMarkers = {"<｜tool▁calls▁begin｜>",
                                                          "<｜tool▁calls▁end｜>"};

constexpr std::array<std::string_view, 2> kMiniMaxListMarkers = {"<minimax:tool_call>",
                                                                 "</minimax:tool_call>"};

constexpr std::array<std::string_view, 2> kKimiListMarkers = {"<|tool_calls_section_begin|>",
                                                              "<|tool_calls_section_end|>"};
constexpr std::string_view kKimiSeparator = "<|tool_call_argument_begin|>";

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

std::optional<ToolCall> function_call(std::string_view body);

std::optional<ToolCall> hermes_call(std::string_view body) {
  if (body.starts_with(kFunctionOpen)) return function_call(body);
  const std::optional<OrderedJson> json = parsed(body);
  if (!json || !json->is_object()) return std::nullopt;
  const auto name = json->find("name");
  if (name == json->end() || !name->is_string()) return std::nullopt;
  // Some fine-tunes write "parameters", some write the object as a string.
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
  std::string_view name = trimmed(body.substr(0, separator), kCallBlanks);
  std::string_view rest = trimmed(body.substr(separator + kDeepSeekSeparator.size()), kCallBlanks);
  // V3 and R1: function<sep>name, then the arguments in a fenced code block.
  const std::size_t fence = rest.find("```json");
  if (name == "function" && fence != std::string_view::npos) {
    name = trimmed(rest.substr(0, fence), kCallBlanks);
    rest = rest.substr(fence + 7);
    rest = trimmed(rest.substr(0, rest.rfind("```")), kCallBlanks);
  }
  const std::optional<OrderedJson> arguments = parsed(rest);
  return arguments ? call_of(std::string(name), *arguments) : std::nullopt;
}

// Removes `"VALUE">` or `VALUE>` from the front of a text and returns VALUE.
std::optional<std::string> take_attribute(std::string_view& text) {
  const std::size_t end = text.find('>');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string value(trimmed(text.substr(0, end), " \t\r\n\"'"));
  text.remove_prefix(end + 1);
  return value;
}

// A line break on each side of a value is not part of it.
std::string_view without_line_breaks(std::string_view value) {
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

// `"NAME">`, then the parameters, which begin with `open`. All values are text here:
// type_arguments() converts them.
std::optional<ToolCall> parameters_call(std::string_view body, std::string_view open) {
  constexpr std::string_view kClose = "</parameter>";
  const std::optional<std::string> name = take_attribute(body);
  if (!name) return std::nullopt;
  OrderedJson arguments = OrderedJson::object();
  for (body = trimmed(body, kCallBlanks); !body.empty(); body = trimmed(body, kCallBlanks)) {
    if (!body.starts_with(open)) return std::nullopt;
    body.remove_prefix(open.size());
    const std::optional<std::string> key = take_attribute(body);
    const std::size_t close = body.find(kClose);
    if (!key || key->empty() || close == std::string_view::npos) return std::nullopt;
    arguments[*key] = std::string(without_line_breaks(body.substr(0, close)));
    body.remove_prefix(close + kClose.size());
  }
  return call_of(*name, arguments);
}

std::optional<ToolCall> minimax_call(std::string_view body) {
  return parameters_call(body, "<parameter name=");
}

// Qwen3-Coder and Qwen3.5: <function=NAME><parameter=KEY>VALUE</parameter></function>.
std::optional<ToolCall> function_call(std::string_view body) {
  body.remove_prefix(kFunctionOpen.size());
  if (body.ends_with(kFunctionClose)) body.remove_suffix(kFunctionClose.size());
  return parameters_call(body, "<parameter=");
}

const OrderedJson* member(const OrderedJson* object, const std::string& key) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto found = object->find(key);
  return found == object->end() ? nullptr : &*found;
}

// Whether the schema of a tool's parameter asks for text.
bool is_text_parameter(const OrderedJson& tools,
                       const std::string& tool_name,
                       const std::string& parameter) {
  if (!tools.is_array()) return false;
  for (const OrderedJson& tool : tools) {
    const OrderedJson* function = member(&tool, "function");
    if (function == nullptr) function = &tool;
    const OrderedJson* name = member(function, "name");
    if (name == nullptr || *name != tool_name) continue;
    const OrderedJson* schema = member(member(function, "parameters"), "properties");
    const OrderedJson* type = member(member(schema, parameter), "type");
    return type != nullptr && *type == "string";
  }
  return false;
}

// Values that the tool does not declare as strings are JSON where they can be parsed as JSON.
void type_arguments(const OrderedJson& tools, ToolCall& call) {
  std::optional<OrderedJson> arguments = parsed(call.arguments);
  GRAFT_CHECK(arguments && arguments->is_object(), "arguments of a call are not an object");
  for (const auto& item : arguments->items()) {
    if (is_text_parameter(tools, call.name, item.key())) continue;
    if (std::optional<OrderedJson> value = parsed(item.value().get<std::string>()))
      item.value() = *std::move(value);
  }
  call.arguments = ordered_text(*arguments);
}

// "functions.NAME:INDEX", then the arguments. The model refers to its calls by this id.
std::optional<ToolCall> kimi_call(std::string_view body) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t separator = body.find(kKimiSeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::string_view id = trimmed(body.substr(0, separator), kCallBlanks);
  std::string_view name = id.substr(0, id.rfind(':'));
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const std::optional<OrderedJson> arguments =
      parsed(trimmed(body.substr(separator + kKimiSeparator.size()), kCallBlanks));
  std::optional<ToolCall> call = arguments ? call_of(std::string(name), *arguments) : std::nullopt;
  if (call) call->id = id;
  return call;
}

std::optional<ToolCall> harmony_call(std::string_view body) {
  const std::size_t separator = body.find(kHarmonySeparator);
  if (separator == std::string_view::npos) return std::nullopt;
  const std::optional<OrderedJson> arguments =
      parsed(trimmed(body.substr(separator + kHarmonySeparator.size()), kCallBlanks));
  return arguments ? call_of(std::string(body.substr(0, separator)), *arguments) : std::nullopt;
}

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
  std::optional<ToolCall> (*parse)(std::string_view body);
  bool has_text_arguments = false;  // parse() returns all of them as strings
};

std::span<const ToolCallParser::Format> ToolCallParser::formats() const {
  static constexpr std::array<Format, 5> kFormats = {
      Format{chat::kHermesMarkers, {}, hermes_call},
      Format{chat::kDeepSeekMarkers, kListMarkers, deepseek_call},
      Format{chat::kMiniMaxMarkers, kMiniMaxListMarkers, minimax_call, true},
      Format{chat::kKimiMarkers, kKimiListMarkers, kimi_call},
      Format{chat::kHarmonyMarkers, {}, harmony_call},
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
  return open_ == nullptr ? advance_text(out, at_end) : advance_call(out, at_end);
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
  if (auto call = open_->parse(trimmed(body, kCallBlanks))) {
    const bool has_text_arguments =
        open_->has_text_arguments || trimmed(body, kCallBlanks).starts_with(kFunctionOpen);
    if (has_text_arguments) type_arguments(tools_, *call);
    out.calls.push_back(*std::move(call));
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
