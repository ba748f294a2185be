#include "graft/chat/call_grammar.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "graft/base/error.h"
#include "graft/base/text/ascii.h"
#include "graft/base/text/str.h"
#include "graft/chat/tool_format.h"

namespace graft::chat {
namespace {

using formats::ToolCallFormat;

// What ends a message, also when it is spelled as text (harmony.h).
constexpr std::string_view kMessageText = R"(%without "<\\|(end|return|call|start)\\|>")";
constexpr std::string_view kNextMessage = R"(%special "<|start|>assistant")";
constexpr std::string_view kHarmonyArguments =
    R"((" " (%special "<|constrain|>")? "json")? %special "<|message|>" )";
// The beginning of calls without a marker.
constexpr std::string_view kObjectCall =
    R"re(^[ \t\r\n]*\[?[ \t\r\n]*\{[ \t\r\n]*"(name|id|type|arguments|parameters)")re";
constexpr std::string_view kPythonCalls =
    R"re(^[ \t\r\n]*\[[ \t\r\n]*[A-Za-z0-9_.\-]+[ \t\r\n]*\()re";

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

std::string special(std::string_view text) {
  return text.empty() ? "" : str("%special ", quoted(text), " ");
}

// A regular expression of the text itself.
std::string pattern_of(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}/)").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string without(const std::vector<std::string>& patterns) {
  std::string all;
  for (const std::string& pattern : patterns)
    all += str(all.empty() ? "" : "|", pattern);
  return str("%without ", quoted(all));
}

struct Tool {
  std::string name = {};
  OrderedJson schema = {};
  bool is_strict = false;
};

const OrderedJson& function_of(const OrderedJson& tool) {
  const auto function = tool.find("function");
  return function == tool.end() ? tool : *function;
}

bool is_strict(const OrderedJson& function) {
  const auto strict = function.find("strict");
  return strict != function.end() && *strict == OrderedJson(true);
}

void check_name(const std::string& name, const CallTemplate& form) {
  const std::string_view more = form.is_python ? "_-." : "_-.:/";
  const auto is_part = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  };
  if (name.empty() || !std::ranges::all_of(name, is_part)) {
    fail("tool '", name, "': calls of this model have names of letters, digits and ", more,
         " only");
  }
}

std::vector<Tool> tools_of(const CallGrammar& options, const OrderedJson& tools) {
  std::vector<Tool> out;
  for (const OrderedJson& given : tools) {
    const OrderedJson& function = function_of(given);
    Tool tool = {.name = function.at("name").get<std::string>(),
                 .schema = {{"type", "object"}, {"additionalProperties", false}},
                 .is_strict = options.is_forced || is_strict(function)};
    const auto& names = options.names;
    if (!names.empty() && std::ranges::find(names, tool.name) == names.end()) continue;
    const auto parameters = function.find("parameters");
    if (parameters != function.end() && parameters->is_object()) tool.schema = *parameters;
    check_name(tool.name, options.form);
    out.push_back(std::move(tool));
  }
  if (out.empty()) fail("no tool can be called");
  return out;
}

class CallGrammarWriter {
 public:
  CallGrammarWriter(const CallGrammar& options, const OrderedJson& tools)
      : options_(options), form_(options.form), tools_(tools_of(options, tools)) {}

  std::string write() const {
    std::string text = str("root ::= ", root(), "\ncalls ::= ", calls(), "\ncall ::= ", call());
    for (std::size_t i = 0; i < tools_.size(); ++i)
      text += str("\narguments-", i, " ::= ", arguments(tools_[i]));
    return text + "\n";
  }

 private:
  bool is_harmony() const { return options_.format == ToolCallFormat::Harmony; }
  // Calls have no marker: they are the whole response.
  bool is_bare() const {
    return options_.format == ToolCallFormat::Any || options_.format == ToolCallFormat::Llama;
  }

  std::string root() const {
    if (options_.is_forced) return str(thinking(), line_ends(), "calls");
    if (is_harmony()) return harmony_root();
    if (is_bare()) return str(thinking(), "(calls | ", text(), ")");
    return options_.is_single ? str(thinking(), text(), " calls?")
                              : str(thinking(), text(), " (calls ", text(), ")*");
  }

  // Models begin a line before their markers.
  std::string line_ends() const { return is_bare() || is_harmony() ? "" : R"("\n"{0,2} )"; }

  // The reasoning, and what stands between it and the rest.
  std::string thinking() const {
    using Thinking = CallGrammar::Thinking;
    if (options_.thinking == Thinking::None) return {};
    const std::string inside =
        is_harmony() ? std::string(kMessageText) : without({pattern_of(options_.reasoning.close)});
    std::string block = str(inside, " ", special(options_.reasoning.close),
                            is_harmony() ? kNextMessage : R"("\n"{0,2})", " ");
    if (options_.thinking == Thinking::Open) return block;
    return str("(", special(options_.reasoning.open), block, ")? ");
  }

  // Text that the parser does not take for the beginning of a call.
  std::string text() const {
    std::vector<std::string> patterns;
    if (is_bare()) patterns.emplace_back(kObjectCall);
    if (options_.format == ToolCallFormat::Llama) patterns.emplace_back(kPythonCalls);
    for (const ToolCallMarkers& markers : tool_call_markers()) {
      if (options_.format == ToolCallFormat::Any || options_.format == markers.format)
        patterns.push_back(pattern_of(markers.open));
    }
    return without(patterns);
  }

  // Messages of any channel; a call is the last one.
  std::string harmony_root() const {
    const std::string plain = str(
        R"((%special "<|channel|>" ("analysis" | "commentary" | "final") %special "<|message|>" )",
        kMessageText, ")");
    const std::string next = str("%special \"<|end|>\" ", kNextMessage, " ");
    std::string messages = str("(", plain, " ", next, ")* (", plain, " | calls)");
    if (options_.thinking != CallGrammar::Thinking::Open) return messages;
    return str(kMessageText, " (", next, messages, ")?");
  }

  std::string calls() const {
    std::string list = special(form_.begin);
    if (!form_.list_begin.empty()) list += str("\" \"? ", special(form_.list_begin));
    list += "call ";
    if (!options_.is_single) list += str("(", special(form_.separator), "call)* ");
    return list + special(form_.end);
  }

  std::string call() const {
    const std::string before =
        is_harmony() ? std::string(kHarmonyArguments) : special(form_.before_arguments);
    const auto named = [&](std::string_view after_name) {
      std::string ways;
      for (std::size_t i = 0; i < tools_.size(); ++i) {
        ways += str(i == 0 ? "" : " | ", quoted(tools_[i].name), " ");
        if (!form_.before_index.empty()) ways += str(special(form_.before_index), "[0-9]{1,4} ");
        ways += str(after_name, before, "arguments-", i);
      }
      return str("(", ways, ") ");
    };
    std::string head = str(special(form_.before_name), named(""));
    // The other order of the header.
    if (is_harmony() && !options_.is_forced) {
      head = str("(", head, R"(| " to=functions." )", named(R"(%special "<|channel|>commentary" )"),
                 ") ");
    }
    return str(head, special(form_.after_arguments));
  }

  std::string arguments(const Tool& tool) const {
    if (!tool.is_strict) return free_arguments(tool);
    OrderedJson description = {{"tool", tool.name}, {"schema", tool.schema}};
    if (!form_.has_json_arguments) description["parameters"] = parameters();
    return str("%arguments ", description.dump());
  }

  OrderedJson parameters() const {
    const bool is_typed = form_.before_text != form_.before_json;
    OrderedJson out = {{"kind", form_.is_python ? "python"
                                : is_typed      ? "typed"
                                                : "untyped"},
                       {"before_key", form_.before_key},
                       {"before_text", form_.before_text},
                       {"before_json", form_.before_json},
                       {"after_value", form_.after_value},
                       {"separator", form_.is_python ? ", " : ""}};
    if (!form_.is_python) out["excluded"] = excluded();
    return out;
  }

  // Texts that end a value.
  std::vector<std::string> excluded() const {
    std::vector<std::string> texts = {std::string(trimmed(form_.after_value, "\n"))};
    for (const ToolCallMarkers& markers : tool_call_markers()) {
      if (options_.format == markers.format && !markers.close.empty())
        texts.emplace_back(markers.close);
    }
    return texts;
  }

  // Of a tool without `strict`: any arguments.
  std::string free_arguments(const Tool& tool) const {
    if (form_.has_json_arguments)
      return str("%arguments ", OrderedJson{{"tool", tool.name}, {"schema", true}}.dump());
    const std::string key = str(special(form_.before_key), "[A-Za-z0-9_.-]+ ");
    if (form_.is_python) {
      const std::string one = str("([A-Za-z0-9_] [A-Za-z0-9_.-]* ", special(form_.before_json),
                                  R"(("True" | "False" | "None" | %json {})))");
      return str("(", one, " (\", \" ", one, ")*)?");
    }
    std::vector<std::string> patterns;
    for (const std::string& text : excluded())
      patterns.push_back(pattern_of(text));
    std::string value = str(special(form_.before_text), without(patterns), " ");
    if (form_.before_text != form_.before_json) {
      value = str("(", value, "| ", special(form_.before_json), "%json {}) ");
    }
    return str("(", key, value, special(form_.after_value), ")*");
  }

  const CallGrammar& options_;
  const CallTemplate& form_;
  std::vector<Tool> tools_;
};

}  // namespace

std::string call_grammar(const CallGrammar& options, const OrderedJson& tools) {
  return CallGrammarWriter(options, tools).write();
}

bool has_strict_tool(const OrderedJson& tools) {
  return tools.is_array() && std::ranges::any_of(tools, [](const OrderedJson& tool) {
           return tool.is_object() && is_strict(function_of(tool));
         });
}

}  // namespace graft::chat
