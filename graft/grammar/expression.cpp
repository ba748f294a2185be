#include "graft/grammar/expression.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "graft/grammar/dfa.h"

namespace graft::grammar {
namespace {

Expr make(Expression expression) {
  expression.size = 1 + static_cast<std::int64_t>(expression.text.size());
  for (const Expr& part : expression.parts)
    expression.size += part->size;
  return std::make_shared<const Expression>(std::move(expression));
}

std::vector<std::uint8_t> utf8_of(std::uint32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return {text.begin(), text.end()};
}

// The UTF-8 sequences of one length from `low` to `high`.
Expr utf8_between(std::span<const std::uint8_t> low, std::span<const std::uint8_t> high) {
  if (low.size() == 1) return bytes({{.first = low[0], .last = high[0]}});
  const auto byte = [](std::uint8_t first, std::uint8_t last) {
    return bytes({{.first = first, .last = last}});
  };
  const std::vector<std::uint8_t> lowest(low.size() - 1, 0x80);
  const std::vector<std::uint8_t> highest(low.size() - 1, 0xBF);
  const auto rest_of_low = low.subspan(1);
  const auto rest_of_high = high.subspan(1);
  if (low[0] == high[0])
    return sequence({byte(low[0], low[0]), utf8_between(rest_of_low, rest_of_high)});
  std::vector<Expr> parts;
  int first = low[0];
  int last = high[0];
  if (!std::ranges::equal(rest_of_low, lowest)) {
    parts.push_back(sequence({byte(low[0], low[0]), utf8_between(rest_of_low, highest)}));
    ++first;
  }
  if (!std::ranges::equal(rest_of_high, highest)) {
    parts.push_back(sequence({byte(high[0], high[0]), utf8_between(lowest, rest_of_high)}));
    --last;
  }
  if (first <= last) {
    parts.push_back(
        sequence({byte(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)),
                  utf8_between(lowest, highest)}));
  }
  return any_of(std::move(parts));
}

// Sorted, merged and clamped to code points.
std::vector<CodeRange> normalized(std::vector<CodeRange> ranges) {
  std::ranges::sort(ranges, {}, &CodeRange::first);
  std::vector<CodeRange> merged;
  for (CodeRange range : ranges) {
    range.last = std::min(range.last, kMaxCodePoint);
    if (range.first > range.last) continue;
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

// Ranges of code points whose UTF-8 has one length, without surrogates.
constexpr std::array<CodeRange, 5> kUtf8Lengths = {
    {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}}};

}  // namespace

Expr literal(std::string_view text) {
  return make({.kind = Expression::Kind::Literal, .text = std::string(text)});
}

Expr empty() {
  return literal("");
}

Expr nothing() {
  return make({.kind = Expression::Kind::Alternatives});
}

Expr bytes(std::vector<ByteRange> ranges) {
  return make({.kind = Expression::Kind::Bytes, .ranges = std::move(ranges)});
}

Expr sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts.front();
  return make({.kind = Expression::Kind::Sequence, .parts = std::move(parts)});
}

Expr any_of(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts.front();
  return make({.kind = Expression::Kind::Alternatives, .parts = std::move(parts)});
}

Expr repeat(Expr body, std::int64_t min, std::int64_t max) {
  if (max == 0) return empty();
  if (min == 1 && max == 1) return body;
  return make(
      {.kind = Expression::Kind::Repeat, .parts = {std::move(body)}, .min = min, .max = max});
}

Expr optional(Expr body) {
  return repeat(std::move(body), 0, 1);
}

Expr rule(RuleId id) {
  return make({.kind = Expression::Kind::Rule, .rule = id});
}

Expr regular(std::shared_ptr<const Dfa> dfa) {
  return make({.kind = Expression::Kind::Regular, .dfa = std::move(dfa)});
}

Expr code_points(std::vector<CodeRange> ranges) {
  std::vector<Expr> parts;
  std::vector<ByteRange> ascii;
  for (const CodeRange& range : normalized(std::move(ranges))) {
    for (const CodeRange& length : kUtf8Lengths) {
      const std::uint32_t first = std::max(range.first, length.first);
      const std::uint32_t last = std::min(range.last, length.last);
      if (first > last) continue;
      if (last <= 0x7F) {
        ascii.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)});
      } else {
        parts.push_back(utf8_between(utf8_of(first), utf8_of(last)));
      }
    }
  }
  if (!ascii.empty()) parts.push_back(bytes(std::move(ascii)));
  return any_of(std::move(parts));
}

Expr code_points_except(std::vector<CodeRange> ranges) {
  std::vector<CodeRange> others;
  std::uint32_t next = 0;
  for (const CodeRange& range : normalized(std::move(ranges))) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kMaxCodePoint) others.push_back({next, kMaxCodePoint});
  return code_points(std::move(others));
}

void append_utf8(std::string& text, std::uint32_t code_point) {
  const auto append = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto continuation = [&](unsigned shift) {
    append(0x80U | ((code_point >> shift) & 0x3FU));
  };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0U | (code_point >> 6U));
    continuation(0);
  } else if (code_point < 0x10000) {
    append(0xE0U | (code_point >> 12U));
    continuation(6);
    continuation(0);
  } else {
    append(0xF0U | (code_point >> 18U));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

RuleId RuleSet::add(std::string name) {
  rules_.push_back({.name = std::move(name), .body = nullptr});
  return static_cast<RuleId>(rules_.size() - 1);
}

}  // namespace graft::grammar
