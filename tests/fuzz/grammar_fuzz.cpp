// Fuzzes structured output: compiling a schema, a regular expression or a grammar either succeeds
// or throws Error, and texts can be matched. The first byte selects the kind; after a zero byte
// follows the text to match.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/grammar/output_matcher.h"
#include "graft/grammar/state_sets.h"

// libFuzzer chose the name. NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Compiling is bounded in memory, but takes seconds for the largest; small inputs find the same.
  constexpr std::size_t kMaxBytes = 2000;
  if (size < 1 || size > kMaxBytes) return 0;
  constexpr unsigned kNumKinds = 4;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const graft::StructuredOutput output = {
      .kind = static_cast<graft::StructuredOutput::Kind>(data[0] % kNumKinds),
      .text = std::string(input.substr(0, end))};
  try {
    const graft::grammar::Automaton automaton = graft::grammar::compile(output);
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
