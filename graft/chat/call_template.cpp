#include "graft/chat/call_template.h"

namespace graft::chat {
namespace {

using formats::ToolCallFormat;

constexpr CallTemplate kJsonCall = {.before_name = R"({"name": ")",
                                    .before_arguments = R"(", "arguments": )",
                                    .after_arguments = "}",
                                    .separator = "; "};

constexpr CallTemplate kLlamaCall = {.before_name = R"({"name": ")",
                                     .before_arguments = R"(", "parameters": )",
                                     .after_arguments = "}",
                                     .separator = "; "};

// Llama 3.2 and 4 with a template that asks for it.
constexpr CallTemplate kPythonCall = {.begin = "[",
                                      .before_arguments = "(",
                                      .after_arguments = ")",
                                      .separator = ", ",
                                      .end = "]",
                                      .has_json_arguments = false,
                                      .is_python = true,
                                      .before_json = "="};

constexpr CallTemplate kHermesCall = {.before_name = "<tool_call>\n{\"name\": \"",
                                      .before_arguments = R"(", "arguments": )",
                                      .after_arguments = "}\n</tool_call>",
                                      .separator = "\n"};

// Qwen3-Coder and Qwen3.5.
constexpr CallTemplate kFunctionCall = {.before_name = "<tool_call>\n<function=",
                                        .before_arguments = ">\n",
                                        .after_arguments = "</function>\n</tool_call>",
                                        .separator = "\n",
                                        .has_json_arguments = false,
                                        .before_key = "<parameter=",
                                        .before_text = ">\n",
                                        .before_json = ">\n",
                                        .after_value = "\n</parameter>\n"};

constexpr CallTemplate kGlmCall = {.before_name = "<tool_call>",
                                   .before_arguments = "\n",
                                   .after_arguments = "</tool_call>",
                                   .separator = "\n",
                                   .has_json_arguments = false,
                                   .before_key = "<arg_key>",
                                   .before_text = "</arg_key>\n<arg_value>",
                                   .before_json = "</arg_key>\n<arg_value>",
                                   .after_value = "</arg_value>\n"};

// GLM-4.7 and GLM-5.
constexpr CallTemplate kPlainGlmCall = {.before_name = "<tool_call>",
                                        .after_arguments = "</tool_call>",
                                        .has_json_arguments = false,
                                        .before_key = "<arg_key>",
                                        .before_text = "</arg_key><arg_value>",
                                        .before_json = "</arg_key><arg_value>",
                                        .after_value = "</arg_value>"};

// V3.1.
constexpr CallTemplate kDeepSeekCall = {.begin = "<｜tool▁calls▁begin｜>",
                                        .before_name = "<｜tool▁call▁begin｜>",
                                        .before_arguments = "<｜tool▁sep｜>",
                                        .after_arguments = "<｜tool▁call▁end｜>",
                                        .end = "<｜tool▁calls▁end｜>"};

constexpr CallTemplate kDeepSeekV3Call = {
    .begin = "<｜tool▁calls▁begin｜>",
    .before_name = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    .before_arguments = "\n```json\n",
    .after_arguments = "\n```<｜tool▁call▁end｜>",
    .separator = "\n",
    .end = "<｜tool▁calls▁end｜>"};

constexpr CallTemplate kMiniMaxCall = {.begin = "<minimax:tool_call>\n",
                                       .before_name = "<invoke name=\"",
                                       .before_arguments = "\">\n",
                                       .after_arguments = "</invoke>\n",
                                       .end = "</minimax:tool_call>",
                                       .has_json_arguments = false,
                                       .before_key = "<parameter name=\"",
                                       .before_text = "\">",
                                       .before_json = "\">",
                                       .after_value = "</parameter>\n"};

constexpr CallTemplate kDsmlCall = {.begin = "<｜DSML｜function_calls>\n",
                                    .before_name = "<｜DSML｜invoke name=\"",
                                    .before_arguments = "\">\n",
                                    .after_arguments = "</｜DSML｜invoke>\n",
                                    .end = "</｜DSML｜function_calls>",
                                    .has_json_arguments = false,
                                    .before_key = "<｜DSML｜parameter name=\"",
                                    .before_text = R"(" string="true">)",
                                    .before_json = R"(" string="false">)",
                                    .after_value = "</｜DSML｜parameter>\n"};

constexpr CallTemplate with_list_marks(CallTemplate form,
                                       std::string_view begin,
                                       std::string_view end) {
  form.begin = begin;
  form.end = end;
  return form;
}

// DeepSeek-V4.
constexpr CallTemplate kDsmlV4Call =
    with_list_marks(kDsmlCall, "<｜DSML｜tool_calls>\n", "</｜DSML｜tool_calls>");

constexpr CallTemplate kKimiCall = {.begin = "<|tool_calls_section_begin|>",
                                    .before_name = "<|tool_call_begin|>functions.",
                                    .before_index = ":",
                                    .before_arguments = "<|tool_call_argument_begin|>",
                                    .after_arguments = "<|tool_call_end|>",
                                    .end = "<|tool_calls_section_end|>"};

constexpr CallTemplate kMistralCall = {.before_name = "[TOOL_CALLS]", .before_arguments = "[ARGS]"};

constexpr CallTemplate kMistralListCall = {.begin = "[TOOL_CALLS]",
                                           .list_begin = "[",
                                           .before_name = R"({"name": ")",
                                           .before_arguments = R"(", "arguments": )",
                                           .after_arguments = "}",
                                           .separator = ", ",
                                           .end = "]"};

// After "<|start|>assistant".
constexpr CallTemplate kHarmonyCall = {.before_name = "<|channel|>commentary to=functions.",
                                       .before_arguments = " <|constrain|>json<|message|>",
                                       .after_arguments = "<|call|>",
                                       .separator = "<|start|>assistant"};

}  // namespace

CallTemplate call_template(ToolCallFormat format, std::string_view template_source) {
  const auto has = [&](std::string_view text) {
    return template_source.find(text) != std::string_view::npos;
  };
  switch (format) {
    case ToolCallFormat::Any:
      return kJsonCall;
    case ToolCallFormat::Hermes:
      if (has("<function=")) return kFunctionCall;
      if (has("</arg_key><arg_value>")) return kPlainGlmCall;
      return has("<arg_key>") ? kGlmCall : kHermesCall;
    case ToolCallFormat::DeepSeek:
      return has("```json") ? kDeepSeekV3Call : kDeepSeekCall;
    case ToolCallFormat::MiniMax:
      return kMiniMaxCall;
    case ToolCallFormat::Kimi:
      return kKimiCall;
    case ToolCallFormat::Dsml:
      return has("tool_calls>") ? kDsmlV4Call : kDsmlCall;
    case ToolCallFormat::Mistral:
      return has("[ARGS]") ? kMistralCall : kMistralListCall;
    case ToolCallFormat::Llama:
      // The words of the prompts that ask for a list of calls in Python.
      return has("func_name1(") ? kPythonCall : kLlamaCall;
    case ToolCallFormat::Harmony:
      return kHarmonyCall;
  }
  return kJsonCall;
}

}  // namespace graft::chat
