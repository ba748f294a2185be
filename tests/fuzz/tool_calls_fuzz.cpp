// Fuzzes the output of a model: splitting it into reasoning, content and tool calls never fails,
// and does not depend on the pieces in which it arrives.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/check.h"
#include "graft/base/text/json.h"
#include "graft/server/generation/output_parser.h"

namespace {

using graft::server::OutputDelta;
using graft::server::OutputFormat;

OutputDelta parse(const OutputFormat& format,
                  std::string_view text,
                  std::size_t piece,
                  bool whole_calls) {
  graft::server::OutputParser parser(format, whole_calls);
  OutputDelta all;
  for (std::size_t at = 0; at < text.size(); at += piece)
    all.append(parser.feed(text.substr(at, piece)));
  all.append(parser.finish());
  return all;
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr unsigned kNumFormats = 9;
  OutputFormat format = {
      .in_thinking = (data[1] & 1U) != 0,
      .parse_tool_calls = true,
      .single_call = (data[1] & 2U) != 0,
      .tool_calls = static_cast<graft::formats::ToolCallFormat>(data[0] % kNumFormats)};
  format.tools = graft::parse_ordered_json(
      R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
          "properties": {"s": {"type": "string"}}}}}])",
      "tools");
  if (format.tool_calls == graft::formats::ToolCallFormat::Harmony)
    format.reasoning = graft::formats::kHarmonyReasoning;
  // Longer texts take time that is quadratic in their size.
  const std::string_view text(reinterpret_cast<const char*>(data + 2),
                              std::min<std::size_t>(size - 2, 4096));
  const bool whole_calls = (data[1] & 4U) != 0;
  const OutputDelta whole = parse(format, text, text.size() + 1, whole_calls);
  const OutputDelta pieces = parse(format, text, 1 + data[1] / 16U, whole_calls);
  GRAFT_CHECK(whole.content == pieces.content && whole.reasoning == pieces.reasoning,
              "the text depends on its pieces");
  GRAFT_CHECK(whole.calls.size() == pieces.calls.size(), "calls depend on the pieces");
  for (std::size_t i = 0; i < whole.calls.size(); ++i) {
    GRAFT_CHECK((whole_calls || whole.calls[i].index == i) && !whole.calls[i].id.empty(),
                "a call without its start");
    GRAFT_CHECK(whole.calls[i].arguments == pieces.calls[i].arguments &&
                    whole.calls[i].name == pieces.calls[i].name,
                "a call depends on its pieces");
  }
  return 0;
}
