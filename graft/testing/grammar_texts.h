// For tests: whether whole texts match a structured output, without a vocabulary.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/grammar/output_matcher.h"
#include "graft/grammar/state_sets.h"

namespace graft::grammar::testing {

inline bool matches(const Automaton& automaton, std::string_view text) {
  if (automaton.matches_nothing()) return false;
  StateSets sets(automaton);
  SetId set = sets.start();
  for (const char c : text) {
    set = sets.step(set, static_cast<std::uint8_t>(c));
    if (set == StateSets::kDead) return false;
  }
  return sets.can_end(set);
}

// The Error of compiling; empty: none.
inline std::string compile_error(StructuredOutput::Kind kind, const std::string& text) {
  try {
    compile({.kind = kind, .text = text});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace graft::grammar::testing
