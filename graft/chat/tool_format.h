// The markers of tool calls in a model's output, by format.

#pragma once

#include <span>
#include <string_view>

#include "graft/formats/chat_traits.h"

namespace graft::chat {

struct ToolCallMarkers {
  formats::ToolCallFormat format;
  std::string_view open;
  std::string_view close;  // empty: a call ends with its arguments
};

inline constexpr ToolCallMarkers kHermesMarkers = {
    .format = formats::ToolCallFormat::Hermes, .open = "<tool_call>", .close = "</tool_call>"};
inline constexpr ToolCallMarkers kDeepSeekMarkers = {.format = formats::ToolCallFormat::DeepSeek,
                                                     .open = "<｜tool▁call▁begin｜>",
                                                     .close = "<｜tool▁call▁end｜>"};

// Calls stand between <minimax:tool_call> and </minimax:tool_call>. The name follows in quotes.
inline constexpr ToolCallMarkers kMiniMaxMarkers = {
    .format = formats::ToolCallFormat::MiniMax, .open = "<invoke name=", .close = "</invoke>"};

// Calls stand between <|tool_calls_section_begin|> and <|tool_calls_section_end|>.
inline constexpr ToolCallMarkers kKimiMarkers = {.format = formats::ToolCallFormat::Kimi,
                                                 .open = "<|tool_call_begin|>",
                                                 .close = "<|tool_call_end|>"};

// Calls stand between <｜DSML｜function_calls> and </｜DSML｜function_calls>, those of DeepSeek-V4
// between <｜DSML｜tool_calls> and </｜DSML｜tool_calls>.
inline constexpr ToolCallMarkers kDsmlMarkers = {.format = formats::ToolCallFormat::Dsml,
                                                 .open = "<｜DSML｜invoke name=",
                                                 .close = "</｜DSML｜invoke>"};

// Around a list of calls; most responses are the list alone.
inline constexpr ToolCallMarkers kLlamaMarkers = {.format = formats::ToolCallFormat::Llama,
                                                  .open = "<|python_start|>",
                                                  .close = "<|python_end|>"};

// Before a call of a built-in tool, or a JSON object; Llama 3.
inline constexpr ToolCallMarkers kPythonTagMarkers = {
    .format = formats::ToolCallFormat::Llama, .open = "<|python_tag|>", .close = ""};

// Before a list of calls, or before each of them.
inline constexpr ToolCallMarkers kMistralMarkers = {
    .format = formats::ToolCallFormat::Mistral, .open = "[TOOL_CALLS]", .close = ""};

// As HarmonySplitter writes a call, whatever the order of its header.
inline constexpr ToolCallMarkers kHarmonyMarkers = {.format = formats::ToolCallFormat::Harmony,
                                                    .open = "<|channel|>commentary to=functions.",
                                                    .close = "<|call|>"};

// Formats with several rows have them together.
std::span<const ToolCallMarkers> tool_call_markers();

// The format whose opening marker a template contains, Any when it contains those of several,
// `fallback` when it contains none.
formats::ToolCallFormat tool_call_format(std::string_view template_source,
                                         formats::ToolCallFormat fallback);

}  // namespace graft::chat
