// Expressions over bytes: what regular expressions, GBNF and JSON schemas are translated to.
// Immutable trees that may share parts; rules make them recursive.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace graft::grammar {

class Dfa;
struct Expression;
using Expr = std::shared_ptr<const Expression>;
using RuleId = std::uint32_t;

struct ByteRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;  // inclusive

  bool contains(std::uint8_t byte) const { return byte >= first && byte <= last; }
  bool operator==(const ByteRange&) const = default;
};

// Code points, inclusive.
struct CodeRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

inline constexpr std::uint32_t kMaxCodePoint = 0x10FFFF;
inline constexpr std::int64_t kUnlimited = -1;

struct Expression {
  enum class Kind : std::uint8_t {
    Literal,       // text
    Bytes,         // one byte of ranges
    Sequence,      // parts in order
    Alternatives,  // one of parts; none: matches nothing
    Repeat,        // parts[0], min to max times
    Rule,          // a rule of the grammar
    Regular,       // dfa
  };

  Kind kind = Kind::Literal;
  std::string text = {};
  std::vector<ByteRange> ranges = {};
  std::vector<Expr> parts = {};
  std::int64_t min = 0;
  std::int64_t max = kUnlimited;
  RuleId rule = 0;
  std::shared_ptr<const Dfa> dfa = nullptr;
  std::int64_t size = 1;  // nodes of the tree
};

Expr literal(std::string_view text);
Expr empty();    // matches the empty text
Expr nothing();  // matches no text
Expr bytes(std::vector<ByteRange> ranges);
Expr sequence(std::vector<Expr> parts);
Expr any_of(std::vector<Expr> parts);
Expr repeat(Expr body, std::int64_t min, std::int64_t max = kUnlimited);
Expr optional(Expr body);
Expr rule(RuleId id);
Expr regular(std::shared_ptr<const Dfa> dfa);

// One character of these code points in UTF-8; surrogates are left out.
Expr code_points(std::vector<CodeRange> ranges);
// One character that is not of these code points.
Expr code_points_except(std::vector<CodeRange> ranges);

// Appends the UTF-8 of a code point.
void append_utf8(std::string& text, std::uint32_t code_point);

// A set of rules that refer to each other.
class RuleSet {
 public:
  // The name is for messages.
  RuleId add(std::string name);
  void define(RuleId id, Expr body) { rules_[id].body = std::move(body); }

  std::size_t size() const { return rules_.size(); }
  const std::string& name(RuleId id) const { return rules_[id].name; }
  const Expr& body(RuleId id) const { return rules_[id].body; }

 private:
  struct Rule {
    std::string name;
    Expr body;  // null: not defined yet
  };
  std::vector<Rule> rules_;
};

}  // namespace graft::grammar
