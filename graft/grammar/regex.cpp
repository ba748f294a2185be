#include "graft/grammar/regex.h"

#include <memory>
#include <utility>

#include "graft/grammar/dfa.h"
#include "graft/grammar/regex_parser.h"

namespace graft::grammar {
namespace {

Expr any_text() {
  return repeat(code_points({{0, kMaxCodePoint}}), 0);
}

Expr mark(std::uint8_t byte) {
  return bytes({{byte, byte}});
}

// The texts that match when marks at their ends stand for ^ and $.
Expr resolve_marks(const Expr& marked) {
  const Expr framed = sequence({optional(mark(kBeginMark)), any_text(), optional(mark(kEndMark))});
  const Dfa texts = intersection(Dfa(marked), Dfa(framed)).without_marks(kBeginMark, kEndMark);
  return regular(std::make_shared<const Dfa>(texts));
}

}  // namespace

Expr regex_match(std::string_view pattern) {
  const RegexParser::Result parsed = RegexParser(pattern).parse();
  return parsed.has_marks ? resolve_marks(parsed.body) : parsed.body;
}

Expr regex_search(std::string_view pattern) {
  const RegexParser::Result parsed = RegexParser(pattern).parse();
  const Expr any =
      parsed.has_marks
          ? repeat(any_of({code_points({{0, kMaxCodePoint}}), mark(kBeginMark), mark(kEndMark)}), 0)
          : any_text();
  std::vector<Expr> parts;
  if (!parsed.is_begin_anchored) parts.push_back(any);
  parts.push_back(parsed.body);
  if (!parsed.is_end_anchored) parts.push_back(any);
  Expr found = sequence(std::move(parts));
  return parsed.has_marks ? resolve_marks(found) : found;
}

}  // namespace graft::grammar
