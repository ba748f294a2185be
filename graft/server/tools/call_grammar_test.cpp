// Grammars of tool calls against the parsers: what a grammar allows is a call whose arguments match
// the schema of its tool, in every format.

#include "graft/chat/call_grammar.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graft/base/text/str.h"
#include "graft/server/generation/output_parser.h"
#include "graft/testing/grammar_texts.h"
#include "graft/testing/published_calls.h"

namespace graft::server {
namespace {

using chat::CallGrammar;
using formats::ToolCallFormat;
using grammar::Automaton;
using grammar::StateSets;
using grammar::testing::matches;
using Thinking = CallGrammar::Thinking;

struct FormatCase {
  ToolCallFormat format;
  const char* template_source;
};

constexpr std::array kFormatCases = {
    FormatCase{ToolCallFormat::Any, ""},
    FormatCase{ToolCallFormat::Hermes, ""},
    FormatCase{ToolCallFormat::Hermes, "<function="},
    FormatCase{ToolCallFormat::Hermes, "<arg_key>"},
    FormatCase{ToolCallFormat::Hermes, "<arg_key>k</arg_key><arg_value>"},
    FormatCase{ToolCallFormat::DeepSeek, ""},
    FormatCase{ToolCallFormat::DeepSeek, "```json"},
    FormatCase{ToolCallFormat::MiniMax, ""},
    FormatCase{ToolCallFormat::Kimi, ""},
    FormatCase{ToolCallFormat::Dsml, ""},
    FormatCase{ToolCallFormat::Dsml, "<｜DSML｜tool_calls>"},
    FormatCase{ToolCallFormat::Mistral, ""},
    FormatCase{ToolCallFormat::Mistral, "[ARGS]"},
    FormatCase{ToolCallFormat::Llama, ""},
    FormatCase{ToolCallFormat::Llama, "[func_name1(params_name1=params_value1)]"},
    FormatCase{ToolCallFormat::Harmony, ""},
};

constexpr const char* kWeatherSchema = R"({"type": "object", "properties": {
  "city": {"type": "string"}, "days": {"type": "integer", "minimum": 0, "maximum": 99},
  "code": {"$ref": "#/$defs/code"}, "unit": {"enum": ["c", "f", "1"]},
  "note": {"type": ["string", "null"]}, "is_hot": {"type": "boolean"},
  "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
  "when": {"type": "object", "properties": {"at": {"type": "string", "maxLength": 4}},
           "required": ["at"], "additionalProperties": false}},
  "required": ["city", "days", "code"], "additionalProperties": false,
  "$defs": {"code": {"type": "string", "pattern": "^[0-9]{3}$"}}})";

// get_weather, and now() without parameters.
OrderedJson weather_tools(bool is_strict) {
  OrderedJson weather = {{"name", "get_weather"},
                         {"parameters", parse_ordered_json(kWeatherSchema, "schema")},
                         {"strict", is_strict}};
  return OrderedJson::array(
      {{{"type", "function"}, {"function", weather}},
       {{"type", "function"}, {"function", {{"name", "now"}, {"strict", is_strict}}}}});
}

CallGrammar options_of(const FormatCase& one, bool is_forced = true) {
  return {.format = one.format,
          .form = chat::call_template(one.format, one.template_source),
          .reasoning = one.format == ToolCallFormat::Harmony ? formats::kHarmonyReasoning
                                                             : formats::ReasoningTags{},
          .is_forced = is_forced};
}

Automaton compiled(const CallGrammar& options, const OrderedJson& tools) {
  return grammar::compile(
      {.kind = StructuredOutput::Kind::Grammar, .text = chat::call_grammar(options, tools)});
}

OutputDelta parsed(const CallGrammar& options, const OrderedJson& tools, std::string_view text) {
  OutputParser parser({.in_thinking = options.thinking == Thinking::Open,
                       .parse_tool_calls = true,
                       .reasoning = options.reasoning,
                       .tool_calls = options.format,
                       .tools = tools});
  OutputDelta all = parser.feed(text);
  all.append(parser.finish());
  return all;
}

// Arguments of get_weather: days as they are, code without quotes; no city when it is empty.
std::string call_text(const CallGrammar& options,
                      std::string_view name,
                      std::string_view city,
                      std::string_view days) {
  const chat::CallTemplate& form = options.form;
  std::string arguments;
  const auto add = [&](std::string_view key, std::string_view value, bool is_text) {
    const bool is_first = arguments.empty();
    const std::string_view quote = is_text ? "\"" : "";
    if (form.has_json_arguments) {
      arguments += str(is_first ? "{" : ", ", "\"", key, "\": ", quote, value, quote);
    } else if (form.is_python) {
      arguments += str(is_first ? "" : ", ", key, "=", quote, value, quote);
    } else {
      arguments += str(form.before_key, key, is_text ? form.before_text : form.before_json, value,
                       form.after_value);
    }
  };
  if (!city.empty()) add("city", city, true);
  add("days", days, false);
  add("code", "007", true);
  if (form.has_json_arguments) arguments += "}";
  const std::string number = form.before_index.empty() ? "" : str(form.before_index, "0");
  return str(form.begin, form.list_begin, form.before_name, name, number, form.before_arguments,
             arguments, form.after_arguments, form.end);
}

TEST(CallGrammar, AcceptsCallsAndNothingElse) {
  const OrderedJson tools = weather_tools(false);
  for (const FormatCase& one : kFormatCases) {
    CallGrammar options = options_of(one);
    const Automaton automaton = compiled(options, tools);
    const std::string good = call_text(options, "get_weather", "New York", "3");
    EXPECT_TRUE(matches(automaton, good)) << good;
    const std::string bad[] = {"",
                               "Hi. " + good,
                               good + " bye",
                               good.substr(0, good.size() - 1),
                               call_text(options, "get_weather", "", "3"),
                               call_text(options, "get_weather", "New York", "100"),
                               call_text(options, "get_weather", "New York", "\"three\""),
                               call_text(options, "other", "New York", "3"),
                               call_text(options, "now", "New York", "3")};
    for (const std::string& text : bad)
      EXPECT_FALSE(matches(automaton, text)) << text;
    const OutputDelta all = parsed(options, tools, good);
    ASSERT_EQ(all.calls.size(), 1U) << good;
    EXPECT_EQ(parse_json(all.calls[0].arguments, "arguments"),
              (Json{{"city", "New York"}, {"days", 3}, {"code", "007"}}))
        << good;

    options.names = {"now"};
    EXPECT_FALSE(matches(compiled(options, tools), good)) << good;
  }
}

TEST(CallGrammar, CountsCalls) {
  const OrderedJson tools = weather_tools(false);
  for (const FormatCase& one : kFormatCases) {
    CallGrammar options = options_of(one);
    chat::CallTemplate bare = options.form;
    bare.begin = bare.list_begin = bare.end = {};
    CallGrammar inner = options;
    inner.form = bare;
    const std::string call = call_text(inner, "get_weather", "Rome", "0");
    const chat::CallTemplate& form = options.form;
    const std::string two = str(form.begin, form.list_begin, call, form.separator, call, form.end);
    EXPECT_TRUE(matches(compiled(options, tools), two)) << two;
    options.is_single = true;
    EXPECT_FALSE(matches(compiled(options, tools), two)) << two;
  }
}

TEST(CallGrammar, ReasoningComesFirst) {
  const OrderedJson tools = weather_tools(false);
  for (const FormatCase& one : kFormatCases) {
    CallGrammar options = options_of(one);
    const std::string call = call_text(options, "get_weather", "Rome", "0");
    const std::string close =
        str("Hm.", options.reasoning.close,
            one.format == ToolCallFormat::Harmony ? "<|start|>assistant" : "\n\n");
    const std::string block = str(options.reasoning.open, close);
    EXPECT_FALSE(matches(compiled(options, tools), block + call)) << call;
    options.thinking = Thinking::Optional;
    EXPECT_TRUE(matches(compiled(options, tools), block + call)) << call;
    EXPECT_TRUE(matches(compiled(options, tools), call)) << call;
    EXPECT_FALSE(matches(compiled(options, tools), block)) << call;
    options.thinking = Thinking::Open;
    EXPECT_TRUE(matches(compiled(options, tools), close + call)) << call;
    EXPECT_FALSE(matches(compiled(options, tools), call)) << call;
    EXPECT_EQ(parsed(options, tools, close + call).calls.size(), 1U) << call;
  }
}

// A text that the automaton accepts: random bytes, then the shortest way to an end.
class RandomWalk {
 public:
  RandomWalk(const Automaton& automaton, unsigned seed) : sets_(automaton), random_(seed) {}

  std::string text(std::size_t num_random) {
    std::string out;
    grammar::SetId set = sets_.start();
    for (std::size_t i = 0; i < num_random && sets_.can_continue(set); ++i) {
      const std::vector<Step> steps = steps_of(set);
      const Step& step = steps[random_() % steps.size()];
      out += step.byte;
      set = step.next;
    }
    return out + shortest_end(set);
  }

 private:
  struct Step {
    char byte;
    grammar::SetId next;
  };
  // One byte of every range whose bytes lead to the same sets.
  std::vector<Step> steps_of(grammar::SetId set) {
    std::vector<Step> steps;
    const std::vector<std::uint8_t> begins = sets_.segments(set);
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const unsigned end = i + 1 < begins.size() ? begins[i + 1] : 256U;
      const auto byte = static_cast<std::uint8_t>(begins[i] + random_() % (end - begins[i]));
      const grammar::SetId next = sets_.step(set, byte);
      if (next != StateSets::kDead) steps.push_back({static_cast<char>(byte), next});
    }
    return steps;
  }

  std::string shortest_end(grammar::SetId first) {
    std::unordered_map<grammar::SetId, std::pair<grammar::SetId, char>> from;
    std::vector<grammar::SetId> queue = {first};
    from[first] = {first, 0};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      grammar::SetId set = queue[i];
      if (sets_.can_end(set)) {
        std::string way;
        for (; set != first; set = from[set].first)
          way.insert(way.begin(), from[set].second);
        return way;
      }
      for (const Step& step : steps_of(set)) {
        if (from.emplace(step.next, std::pair(set, step.byte)).second) queue.push_back(step.next);
      }
    }
    ADD_FAILURE() << "no end can be reached";
    return {};
  }

  StateSets sets_;
  std::mt19937 random_;
};

// Every text of the grammar is read back as calls whose arguments match; forced: and nothing else.
void expect_valid_walks(const CallGrammar& options, int num_walks) {
  const OrderedJson tools = weather_tools(true);
  const Automaton automaton = compiled(options, tools);
  const Automaton schema =
      grammar::compile({.kind = StructuredOutput::Kind::JsonSchema, .text = kWeatherSchema});
  std::size_t num_calls = 0;
  for (int i = 0; i < num_walks; ++i) {
    RandomWalk walk(automaton, static_cast<unsigned>(i));
    const std::string text = walk.text(static_cast<std::size_t>(i) * 7 % 300);
    ASSERT_TRUE(matches(automaton, text)) << text;
    const OutputDelta all = parsed(options, tools, text);
    if (options.is_forced) {
      EXPECT_FALSE(all.calls.empty()) << text;
      EXPECT_EQ(all.content, "") << text;
      if (options.is_single) {
        EXPECT_EQ(all.calls.size(), 1U) << text;
      }
    }
    num_calls += all.calls.size();
    for (const ToolCall& call : all.calls) {
      if (call.name == "now") {
        EXPECT_EQ(parse_json(call.arguments, "arguments"), Json::object()) << text;
      } else {
        EXPECT_TRUE(matches(schema, call.arguments)) << call.arguments << "\n" << text;
      }
    }
  }
  if (options.is_forced) {
    EXPECT_GT(num_calls, 0U);
  }
}

TEST(CallGrammar, RandomForcedCallsAreReadBack) {
  for (const FormatCase& one : kFormatCases) {
    CallGrammar options = options_of(one);
    SCOPED_TRACE(str(static_cast<int>(one.format), " ", one.template_source));
    expect_valid_walks(options, 60);
    options.is_single = true;
    options.thinking = Thinking::Open;
    expect_valid_walks(options, 20);
  }
}

TEST(CallGrammar, RandomStrictCallsAreReadBack) {
  for (const FormatCase& one : kFormatCases) {
    SCOPED_TRACE(str(static_cast<int>(one.format), " ", one.template_source));
    const OrderedJson tools = weather_tools(true);
    const CallGrammar strict = options_of(one, false);
    expect_valid_walks(strict, 20);
    const Automaton automaton = compiled(strict, tools);
    const Automaton forced = compiled(options_of(one), tools);
    // Random texts seldom reach a call; forced ones are calls.
    for (unsigned i = 0; i < 10; ++i) {
      RandomWalk walk(forced, 1000 + i);
      const std::string calls = walk.text(std::size_t{i} * 30);
      EXPECT_TRUE(matches(automaton, calls)) << calls;
    }
    EXPECT_TRUE(matches(automaton, one.format == ToolCallFormat::Harmony
                                       ? "<|channel|>final<|message|>Hello {\"a\": 1}."
                                       : "Hello {\"a\": 1}."));
    EXPECT_FALSE(matches(automaton, call_text(strict, "get_weather", "Rome", "-1")));
    EXPECT_FALSE(matches(automaton, call_text(strict, "other", "Rome", "1")));
  }
}

OrderedJson tools_of_calls(const std::vector<std::string>& calls) {
  OrderedJson tools = OrderedJson::array();
  for (const std::string& call : calls) {
    const std::size_t blank = call.find(' ');
    OrderedJson schema = {{"type", "object"},
                          {"properties", OrderedJson::object()},
                          {"required", OrderedJson::array()},
                          {"additionalProperties", false}};
    const OrderedJson arguments = parse_ordered_json(call.substr(blank + 1), "arguments");
    for (const auto& [key, value] : arguments.items()) {
      schema["properties"][key] = {
          {"type", value.is_number() ? std::string("integer") : std::string(value.type_name())}};
      schema["required"].push_back(key);
    }
    tools.push_back(
        {{"type", "function"},
         {"function",
          {{"name", call.substr(0, blank)}, {"parameters", schema}, {"strict", true}}}});
  }
  return tools;
}

TEST(CallGrammar, AcceptsPublishedOutputs) {
  const std::map<std::string, std::string> templates = {
      {"Qwen3-Coder", "<function="},      {"DeepSeek-V3", "```json"},
      {"DeepSeek-V4", "tool_calls>"},     {"GLM-4.5", "<arg_key>"},
      {"GLM-5", "</arg_key><arg_value>"}, {"Mistral-Small-3.2", "[ARGS]"}};
  // Spellings that a parser takes and a grammar need not write.
  const std::vector<std::string> others = {"Hermes-2-Pro",      "Llama-3.1, built-in tool",
                                           "Llama-3.2",         "Llama-4",
                                           "Mistral, with ids", "Mistral-7B-Instruct-v0.3"};
  std::size_t num_accepted = 0;
  for (const testing::PublishedCalls& one : testing::kPublishedCalls) {
    if (std::ranges::find(others, one.model) != others.end()) continue;
    const auto source = templates.find(one.model);
    CallGrammar options =
        options_of({one.format, source == templates.end() ? "" : source->second.c_str()}, false);
    options.thinking = Thinking::Optional;
    EXPECT_TRUE(matches(compiled(options, tools_of_calls(one.calls)), one.text)) << one.model;
    ++num_accepted;
  }
  EXPECT_GE(num_accepted, 14U);
}

TEST(CallGrammar, ToolsWithoutStrictHaveAnyArguments) {
  const OrderedJson tools = weather_tools(false);
  for (const FormatCase& one : kFormatCases) {
    CallGrammar options = options_of(one, false);
    options.names = {"get_weather"};
    const std::string text = call_text(options, "get_weather", "Rome", "1000");
    EXPECT_TRUE(matches(compiled(options, tools), text)) << text;
    EXPECT_FALSE(matches(compiled(options, tools), call_text(options, "now", "Rome", "1"))) << text;
  }
}

std::string error_of(const FormatCase& one, const std::string& name, const std::string& schema) {
  try {
    compiled(options_of(one),
             OrderedJson::array(
                 {{{"type", "function"},
                   {"function",
                    {{"name", name}, {"parameters", parse_ordered_json(schema, "schema")}}}}}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CallGrammar, RefusesWhatItCannotCheck) {
  const FormatCase json = {ToolCallFormat::Hermes, ""};
  const FormatCase xml = {ToolCallFormat::Hermes, "<function="};
  const char* unknown = R"({"properties": {"a": {"frobnicate": 1}}})";
  for (const FormatCase& one : {json, xml}) {
    EXPECT_EQ(error_of(one, "f", unknown),
              "tool f: #/properties/a/frobnicate: this keyword is not supported");
    EXPECT_EQ(error_of(one, "f", R"({"type": "string"})"),
              "tool f: #: the schema allows no object");
  }
  EXPECT_EQ(error_of(xml, "f", R"({"properties": {"a>b": {}}})"),
            "tool f: #/properties/a>b: the calls of this model cannot have a parameter of this "
            "name");
  EXPECT_EQ(error_of(json, "a b", "{}").find("tool 'a b': "), 0U);
}

}  // namespace
}  // namespace graft::server
