// Fuzzes structured output: compiling a schema, a regular expression, a grammar or the schema of a
// tool either succeeds or throws Error, and texts can be matched. The first byte selects the kind,
// of tools also the format of the call; after a zero byte follows the text to match.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/base/text/json.h"
#include "graft/chat/call_grammar.h"
#include "graft/grammar/output_matcher.h"
#include "graft/grammar/state_sets.h"

namespace {

using Kind = graft::StructuredOutput::Kind;

constexpr unsigned kNumKinds = 5;  // the last one is the schema of a tool
constexpr unsigned kNumFormats = 9;

// The call of a tool with this schema, in one of the formats.
std::string tool_grammar(const std::string& schema, unsigned selector) {
  const auto format = static_cast<graft::formats::ToolCallFormat>(selector % kNumFormats);
  const char* sources[] = {"", "<function=", "<arg_key>", "func_name1("};
  const graft::OrderedJson function = {
      {"name", "f"}, {"parameters", graft::parse_ordered_json(schema, "schema")}, {"strict", true}};
  return graft::chat::call_grammar(
      {.format = format,
       .form = graft::chat::call_template(format, sources[selector / kNumFormats % 4]),
       .is_forced = selector % 2 == 0},
      graft::OrderedJson::array({{{"type", "function"}, {"function", function}}}));
}

}  // namespace

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Compiling is bounded in memory, but takes seconds for the largest; small inputs find the same.
  constexpr std::size_t kMaxBytes = 2000;
  if (size < 1 || size > kMaxBytes) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const unsigned kind = data[0] % kNumKinds;
  const std::string text(input.substr(0, end));
  const graft::grammar::SpecialToken tokens[] = {
      {.name = "<t>"}, {.name = "<tool_call>"}, {.name = "<end>", .is_end = true}};
  try {
    graft::StructuredOutput output = {.kind = static_cast<Kind>(kind), .text = text};
    if (kind == kNumKinds - 1)
      output = {.kind = Kind::Grammar, .text = tool_grammar(text, data[0] / kNumKinds)};
    const graft::grammar::Automaton automaton = graft::grammar::compile(output, tokens);
    graft::grammar::StateSets sets(automaton);
    graft::grammar::SetId set = sets.start();
    for (std::size_t i = end + 1; i < input.size(); ++i) {
      const graft::grammar::SetId next = sets.step(set, static_cast<std::uint8_t>(input[i]));
      if (next != graft::grammar::StateSets::kDead) set = next;
    }
  } catch (const graft::Error&) {
    // A valid outcome.
  }
  return 0;
}
