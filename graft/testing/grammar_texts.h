// For tests: whether whole texts match a structured output, without a vocabulary.

#pragma once

#include <string>
#include <string_view>

#include "graft/base/error.h"
#include "graft/grammar/output_matcher.h"
#include "graft/grammar/state_sets.h"

namespace graft::testing {

inline bool matches(const grammar::Automaton& automaton, std::string_view text) {
  if (automaton.matches_nothing()) return false;
  grammar::StateSets sets(automaton);
  grammar::SetId set = sets.start();
  for (const char c : text) {
    set = sets.step(set, static_cast<std::uint8_t>(c));
    if (set == grammar::StateSets::kDead) return false;
  }
  return sets.can_end(set);
}

// The Error of compiling; empty: none.
inline std::string compile_error(StructuredOutput::Kind kind, const std::string& text) {
  try {
    grammar::compile({.kind = kind, .text = text});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace graft::testing
