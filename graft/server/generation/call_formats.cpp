#include "graft/server/generation/call_formats.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "graft/base/check.h"
#include "graft/server/generation/call_syntax.h"

namespace graft::server {
namespace {

using formats::ToolCallFormat;

constexpr std::array<std::string_view, 2> kListMarkers = {"<｜tool▁calls▁begin｜>",
                                                          "<｜tool▁calls▁end｜>"};
constexpr std::array<std::string_view, 2> kMiniMaxListMarkers = {"<minimax:tool_call>",
                                                                 "</minimax:tool_call>"};
constexpr std::array<std::string_view, 2> kKimiListMarkers = {"<|tool_calls_section_begin|>",
                                                              "<|tool_calls_section_end|>"};
// DeepSeek-V3.2's, then DeepSeek-V4's.
constexpr std::array<std::string_view, 4> kDsmlListMarkers = {
    "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "<｜DSML｜tool_calls>",
    "</｜DSML｜tool_calls>"};

// Inside a call. A vocabulary may have them as tokens.
constexpr std::array<std::string_view, 4> kGlmMarks = {"<arg_key>", "</arg_key>", "<arg_value>",
                                                       "</arg_value>"};
constexpr std::array<std::string_view, 1> kDsmlMarks = {"｜DSML｜"};
constexpr std::array<std::string_view, 2> kMistralMarks = {"[ARGS]", "[CALL_ID]"};

// The end of a call as a JSON object, and of a list of them.
constexpr std::string_view kObjectTail = "}],;";

// Formats with several rows stand together.
constexpr std::array<CallFormat, 9> kFormats = {
    CallFormat{chat::kHermesMarkers, {}, hermes_head, parse_hermes, kObjectTail},
    CallFormat{chat::kDeepSeekMarkers, kListMarkers, deepseek_head, nullptr, "`", true},
    CallFormat{chat::kMiniMaxMarkers, kMiniMaxListMarkers, minimax_head, nullptr, ""},
    CallFormat{chat::kKimiMarkers, kKimiListMarkers, kimi_head, nullptr, "", true},
    CallFormat{chat::kHarmonyMarkers, {}, harmony_head, parse_harmony, "", true},
    CallFormat{chat::kDsmlMarkers, kDsmlListMarkers, dsml_head, nullptr, ""},
    CallFormat{chat::kMistralMarkers, {}, mistral_head, parse_hermes, kObjectTail, false, true},
    CallFormat{chat::kLlamaMarkers, {}, llama_head, parse_llama, kObjectTail, true},
    CallFormat{chat::kPythonTagMarkers, {}, llama_head, parse_llama, kObjectTail, true},
};

constexpr CallFormat kBareJson = {
    .markers = {.format = ToolCallFormat::Llama, .open = "", .close = ""},
    .ignored = {},
    .head = object_head,
    .parse = parse_llama,
    .tail = kObjectTail};

}  // namespace

std::span<const CallFormat> call_formats(ToolCallFormat format) {
  if (format == ToolCallFormat::Any) return kFormats;
  const auto is_of = [&](const CallFormat& row) { return row.markers.format == format; };
  const auto* first = std::ranges::find_if(kFormats, is_of);
  GRAFT_CHECK(first != kFormats.end(), "no parser for this format of tool calls");
  return {first, std::find_if_not(first, kFormats.end(), is_of)};
}

std::vector<std::string_view> tool_marks(ToolCallFormat format) {
  std::vector<std::string_view> marks;
  const auto add = [&](ToolCallFormat of, std::span<const std::string_view> more) {
    if (format != ToolCallFormat::Any && format != of) return;
    std::ranges::copy_if(more, std::back_inserter(marks),
                         [](std::string_view mark) { return !mark.empty(); });
  };
  for (const chat::ToolCallMarkers& markers : chat::tool_call_markers())
    add(markers.format, std::array{markers.open, markers.close});
  add(ToolCallFormat::Hermes, kGlmMarks);
  add(ToolCallFormat::Dsml, kDsmlMarks);
  add(ToolCallFormat::Mistral, kMistralMarks);
  return marks;
}

const CallFormat& bare_json_format() {
  return kBareJson;
}

}  // namespace graft::server
